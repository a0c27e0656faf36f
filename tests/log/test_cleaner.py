"""A cleaning keeps the last record of each key at its offset, and readers see no difference. The
logs are random, with tombstones, transactions, idempotent producers and all codecs. Each failure
prints its seed."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from log.cleaner.clean_job import CleanDone, CleanProgress
from log.cleaner.cleaner import clean
from log.cleaner.cleaner_process import Throttle
from log.cleaner.offset_map import OffsetMap
from log.errors import CorruptLog
from log.partition_log import PartitionLog
from log.segment import LOG
from protocol.records.batch import (
    COMMIT,
    LOG_APPEND_TIME,
    encode_batch,
    iter_batches,
    read_header,
    records_of,
)
from protocol.records.markers import encode_end_transaction
from protocol.records.section import Record, encode_section
from tests.log.cleaning_tools import (
    RETENTION_MS,
    SETTINGS,
    RandomLog,
    all_records,
    clean_log,
    committed,
    job_for,
    last_by_key,
)
from tests.log.log_tools import DIRECTORY, NOW_MS, forget_producers, last_batches, open_log
from tests.simulated_files import SimulatedFiles


class Cleaned:
    """A log that is cleaned several times, and a second log with the same batches that is never
    cleaned."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.fs = SimulatedFiles()
        self.log = open_log(self.fs, **SETTINGS)
        self.writer = RandomLog(self.log, self.chance)
        self.first_dirty = 0
        self.rounds: list[tuple[int, int]] = []
        """For each cleaning: the wall time in ms of the cleaning, and the offset up to which the
        log is clean."""

    def round(self, **fields: int) -> CleanDone:
        self.writer.append(self.chance.randint(5, 60))
        if self.chance.random() < 0.7:
            self.log.roll()
        self.writer.now_ms += self.chance.choice([1, 300, 1200])
        done = clean_log(self.log, self.first_dirty, self.writer.now_ms, **fields)
        self.first_dirty = done.end_offset
        self.rounds.append((self.writer.now_ms, done.end_offset))
        return done

    def horizon_ms(self, offset: int) -> int:
        """Returns the time in ms until which a tombstone at ``offset`` must be kept."""
        return RETENTION_MS + next((now for now, end in self.rounds if end > offset), 1 << 62)


@pytest.mark.parametrize("seed", range(40))
def test_cleaned_log_has_the_last_record_of_each_key(seed: int) -> None:
    case = Cleaned(seed)
    for _ in range(4):
        case.round()
        written = committed(case.writer.shadow)
        seen = committed(case.log)

        assert set(_plain(seen)) <= set(_plain(written)), "a record changed, or moved"
        before, after = last_by_key(written), last_by_key(seen)
        for key, record in before.items():
            if record.value is None and key not in after:
                assert case.horizon_ms(record.offset) <= case.rounds[-1][0], "too young to go"
            else:
                assert after[key] == record
        assert set(after) <= set(before)


def _plain(records: list[Record]) -> list[tuple[object, ...]]:
    return [(*record[:4], tuple(record.headers)) for record in records]


@pytest.mark.parametrize("seed", range(25))
def test_cleaned_part_of_a_log_has_one_record_per_key_and_no_aborted_records(seed: int) -> None:
    case = Cleaned(seed)
    for _ in range(3):
        case.round()
    case.writer.end_all()
    case.log.roll()
    done = clean_log(case.log, case.first_dirty, case.writer.now_ms)
    clean_part = [r for r in all_records(case.log) if r.offset < done.end_offset]
    keys = [record.key for record in clean_part]

    assert done.end_offset == case.log.log_end_offset
    assert len(keys) == len(set(keys))
    assert {r.offset for r in clean_part} <= {r.offset for r in committed(case.writer.shadow)}


@pytest.mark.parametrize("seed", range(25))
def test_reads_skip_the_offset_gaps_that_a_cleaning_leaves(seed: int) -> None:
    case = Cleaned(seed)
    for _ in range(3):
        case.round()
    log = case.log
    there = all_records(log)
    times = sorted({record.timestamp for record in there})

    assert (log.log_start_offset, log.log_end_offset) == (0, case.writer.shadow.log_end_offset)
    for offset in range(log.log_end_offset):
        data = log.read(offset, 1).data
        header, _ = next(iter_batches(data))
        assert header.last_offset >= offset
        [first, *_] = [*(r for r in there if r.offset >= offset), None]
        scanned = (
            record
            for buffer, found in log.scan(offset)
            if not found.is_control
            for record in records_of(buffer, found)
            if record.offset >= offset
        )
        assert next(scanned, None) == first
    for time in times:
        due = next(record for record in there if record.timestamp >= time)
        found = log.offset_for_timestamp(time)
        assert found is not None
        assert found.offset <= due.offset, "a marker of that time may come before"
    newest = log.offset_of_max_timestamp()
    assert newest is not None
    assert newest.timestamp_ms >= times[-1]


@pytest.mark.parametrize("seed", range(25))
def test_reopened_cleaned_log_has_the_same_producers_and_log_end_offset(seed: int) -> None:
    case = Cleaned(seed)
    for _ in range(3):
        case.round()
    log = case.log
    before = (all_records(log), log.log_end_offset)
    known = {producer: last[0] for producer, last in last_batches(log).items()}
    case.fs.kill()

    again = open_log(case.fs, **SETTINGS)

    assert (all_records(again), again.log_end_offset) == before
    assert again.recovery.cuts == []
    assert {p: last[0] for p, last in last_batches(again).items()} == known


@pytest.mark.parametrize("seed", range(12))
def test_log_is_cleaned_in_several_passes_when_the_offset_map_is_small(seed: int) -> None:
    small, large = Cleaned(seed), Cleaned(seed)
    for case, map_bytes in ((small, 3000), (large, 1 << 20)):
        case.writer.append(80)
        case.writer.end_all()
        case.log.roll()
        runs = 0
        while case.first_dirty < case.log.active.base_offset:
            done = clean_log(case.log, case.first_dirty, NOW_MS, map_bytes=map_bytes)
            assert done.end_offset > case.first_dirty
            case.first_dirty = done.end_offset
            runs += 1
        assert (runs > 1) == (map_bytes == 3000)
    assert last_by_key(all_records(small.log)) == last_by_key(all_records(large.log))


# -- single cases


def put(log: PartitionLog, *pairs: tuple[bytes | None, bytes | None], **fields: int) -> None:
    """Appends one batch with these pairs of key and value."""
    first = log.log_end_offset
    records = [
        Record(first + index, NOW_MS + index, key, value)
        for index, (key, value) in enumerate(pairs)
    ]
    log.append(encode_batch(records, **fields), 0, NOW_MS)  # type: ignore[arg-type]


def batches(log: PartitionLog) -> list[tuple[int, int, int, int | None]]:
    """Returns base offset, last offset, number of records and delete horizon of every batch."""
    return [
        (header.base_offset, header.last_offset, header.record_count, header.delete_horizon_ms)
        for _, header in log.scan()
    ]


@pytest.mark.parametrize("key_bytes", [4, 36, 1000])
def test_offset_map_of_a_cleaning_stays_within_its_memory_limit(key_bytes: int) -> None:
    bytes_max = 1 << 20
    chance = random.Random(3)
    tracemalloc.start()
    try:
        offsets = OffsetMap(bytes_max)
        while True:
            section, count = encode_section(
                [Record(n, 0, chance.randbytes(key_bytes), b"") for n in range(100)], 0, 0
            )
            if not offsets.has_room(len(section), count):
                break
            offsets.add(section, count, 100 * offsets.records)
        # Only released memory is counted, because caches that the first use fills do not belong to
        # the map.
        with_it, _ = tracemalloc.get_traced_memory()
        del offsets
        used = with_it - tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert bytes_max / 4 < used < bytes_max


def test_batch_that_loses_no_record_in_a_cleaning_keeps_its_bytes() -> None:
    log = open_log(SimulatedFiles(), **SETTINGS)
    put(log, (b"a", b"1"), (b"b", b"1"), compression=1)
    put(log, (b"c", b"1"))
    before = log.read(0, 10_000).data
    log.roll()

    done = clean_log(log, 0, NOW_MS)

    assert log.read(0, 10_000).data == before
    assert (done.records_read, done.records_kept, done.keys) == (3, 3, 3)


def test_batch_that_loses_records_in_a_cleaning_keeps_offset_range_and_codec() -> None:
    log = open_log(SimulatedFiles(), **SETTINGS)
    put(log, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"c", b"1"), compression=4)
    log.roll()
    put(log, (b"c", b"2"))
    log.roll()

    clean_log(log, 0, NOW_MS)

    [(buffer, header), _] = log.scan()
    assert (header.base_offset, header.last_offset, header.compression) == (0, 3, 4)
    assert header.max_timestamp == NOW_MS + 2, "the newest of those that stay"
    assert [record[:4] for record in records_of(buffer, header)] == [
        (1, NOW_MS + 1, b"b", b"1"),
        (2, NOW_MS + 2, b"a", b"2"),
    ]


def test_cleaning_preserves_the_log_append_time() -> None:
    log = open_log(SimulatedFiles(), message_timestamp_type="LogAppendTime", **SETTINGS)
    put(log, (b"a", b"1"), (b"a", None))
    log.roll()

    clean_log(log, 0, NOW_MS + 5)

    [(buffer, header)] = log.scan()
    assert (header.timestamp_type, header.max_timestamp) == (LOG_APPEND_TIME, NOW_MS)
    assert [record.timestamp for record in records_of(buffer, header)] == [NOW_MS]


def test_tombstone_is_kept_for_delete_retention_ms_from_its_first_cleaning() -> None:
    log = open_log(SimulatedFiles(), **SETTINGS)
    put(log, (b"a", b"1"), (b"a", None))
    log.roll()

    clean_log(log, 0, NOW_MS)
    assert batches(log) == [(0, 1, 1, NOW_MS + RETENTION_MS)]
    assert [record[:3] for record in all_records(log)] == [(1, NOW_MS + 1, b"a")]

    put(log, (b"b", b"1"))
    log.roll()
    clean_log(log, 2, NOW_MS + RETENTION_MS - 1)
    assert batches(log) == [(0, 1, 1, NOW_MS + RETENTION_MS), (2, 2, 1, None)]

    put(log, (b"c", b"1"))
    log.roll()
    clean_log(log, 3, NOW_MS + RETENTION_MS)
    assert [record.key for record in all_records(log)] == [b"b", b"c"]


def test_cleaning_keeps_tombstones_at_or_above_argument_keep_tombstones_from() -> None:
    log = open_log(SimulatedFiles(), **SETTINGS)
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", None), (b"b", None), (b"c", b"1"))
    log.roll()
    clean_log(log, 0, NOW_MS, keep_tombstones_from=3)
    put(log, (b"d", b"1"))
    log.roll()

    clean_log(log, 5, NOW_MS + 10 * RETENTION_MS, keep_tombstones_from=3)
    assert [(r.offset, r.key) for r in all_records(log)] == [(3, b"b"), (4, b"c"), (5, b"d")]

    put(log, (b"e", b"1"))
    log.roll()
    clean_log(log, 6, NOW_MS + 10 * RETENTION_MS, keep_tombstones_from=6)
    assert [record.offset for record in all_records(log)] == [4, 5, 6]


def test_cleaning_removes_records_without_a_key() -> None:
    log = open_log(SimulatedFiles(), **SETTINGS)
    put(log, (None, b"1"), (b"", b"the empty key is one"), (None, b"2"))
    log.roll()

    clean_log(log, 0, NOW_MS)

    assert [record.offset for record in all_records(log)] == [1]


def test_last_batch_of_a_producer_is_kept_when_its_records_are_removed() -> None:
    log = open_log(SimulatedFiles(), **SETTINGS)
    put(log, (b"a", b"1"), producer_id=5, producer_epoch=2, base_sequence=0)
    put(log, (b"a", b"2"), (b"b", b"2"), producer_id=5, producer_epoch=2, base_sequence=1)
    put(log, (b"a", b"3"), (b"b", b"3"))
    log.roll()

    clean_log(log, 0, NOW_MS)

    [(_, header), _] = log.scan()
    assert (header.base_offset, header.last_offset, header.record_count) == (1, 2, 0)
    assert (header.producer_id, header.base_sequence, header.last_sequence) == (5, 1, 2)


def test_max_timestamp_of_a_cleaned_log_ignores_batches_without_records() -> None:
    log = open_log(SimulatedFiles(), **SETTINGS)
    newer = encode_batch(
        [Record(0, NOW_MS + 500, b"a", b"1")], producer_id=5, producer_epoch=0, base_sequence=0
    )
    log.append(newer, 0, NOW_MS)
    put(log, (b"a", b"2"), (b"b", b"1"))
    log.roll()

    clean_log(log, 0, NOW_MS)

    newest = log.offset_of_max_timestamp()
    assert newest is not None
    assert (newest.timestamp_ms, newest.offset) == (NOW_MS + 1, 2)


def end(
    log: PartitionLog, producer: int, outcome: int, timestamp_ms: int = NOW_MS, epoch: int = 0
) -> None:
    offset = log.log_end_offset
    marker = encode_end_transaction(
        outcome,
        base_offset=offset,
        timestamp=timestamp_ms,
        producer_id=producer,
        producer_epoch=epoch,
        coordinator_epoch=0,
    )
    log.append_encoded(marker, offset, offset, timestamp_ms, [read_header(marker)])


def transactional(log: PartitionLog, producer: int, sequence: int, *keys: bytes) -> None:
    first = log.log_end_offset
    records = [Record(first + n, NOW_MS, key, b"t") for n, key in enumerate(keys)]
    batch = encode_batch(
        records,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=sequence,
        is_transactional=True,
    )
    log.append_encoded(batch, first, first + len(keys) - 1, NOW_MS, [read_header(batch)])


def test_marker_is_removed_delete_retention_ms_after_its_records_are_removed() -> None:
    log = open_log(SimulatedFiles(), **SETTINGS)
    transactional(log, 9, 0, b"a")
    end(log, 9, COMMIT)
    put(log, (b"a", b"2"))
    forget_producers(log)  # otherwise the producer's last batch would be kept without records
    log.roll()

    clean_log(log, 0, NOW_MS)
    assert batches(log) == [(1, 1, 1, None), (2, 2, 1, None)], "its record was there"
    clean_log(log, 3, NOW_MS + 5)
    assert batches(log) == [(1, 1, 1, None), (2, 2, 1, None)], "nothing is dirty"
    put(log, (b"b", b"1"))
    log.roll()
    clean_log(log, 3, NOW_MS + 10)
    assert batches(log)[0] == (1, 1, 1, NOW_MS + 10 + RETENTION_MS)
    put(log, (b"c", b"1"))
    log.roll()
    clean_log(log, 4, NOW_MS + 10 + RETENTION_MS)
    assert [batch[0] for batch in batches(log)] == [2, 3, 4]


def test_cleaning_ends_at_the_start_of_an_open_transaction() -> None:
    log = open_log(SimulatedFiles(), **SETTINGS)
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    transactional(log, 9, 0, b"a")
    put(log, (b"b", b"1"))
    put(log, (b"b", b"2"))
    log.roll()

    done = clean_log(log, 0, NOW_MS)
    assert done.end_offset == 2
    assert [record.offset for record in all_records(log)] == [1, 2, 3, 4]
    assert clean_log(log, 2, NOW_MS).end_offset == 2, "no further while it is open"

    end(log, 9, COMMIT)
    log.roll()
    assert clean_log(log, 2, NOW_MS).end_offset == 6
    assert [record.offset for record in all_records(log)] == [2, 4]


def test_small_segments_are_merged_up_to_segment_bytes() -> None:
    log = open_log(SimulatedFiles(), **SETTINGS)
    for number in range(10):
        put(log, (b"k%d" % number, bytes(100)))
        log.roll()
    sizes = [segment.size for segment in log.segments[:-1]]

    clean_log(log, 0, NOW_MS)

    merged = [segment.size for segment in log.segments[:-1]]
    assert sum(merged) == sum(sizes)
    assert all(size <= SETTINGS["segment_bytes"] for size in merged)
    assert len(merged) == 2
    assert log.segments[-1] is log.active


def test_damage_stops_a_cleaning_and_is_reported_with_its_position() -> None:
    fs = SimulatedFiles()
    log = open_log(fs, **SETTINGS)
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    log.roll()
    second = len(fs.written(f"{DIRECTORY}/{0:020d}{LOG}")) // 2
    fs.names[f"{DIRECTORY}/{0:020d}{LOG}"].data[second + 65] ^= 1

    with pytest.raises(CorruptLog, match=f"{0:020d}.log") as damage:
        clean_log(log, 0, NOW_MS)

    assert damage.value.position == second
    assert not [name for name in fs.list(DIRECTORY) if name.endswith(".swap")]
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_cleaning_accesses_only_files_with_the_suffix_cleaned() -> None:
    fs = SimulatedFiles()
    log = open_log(fs, **SETTINGS)
    put(log, (b"a", b"1"), (b"a", b"2"))
    log.roll()
    log.flush()
    fs.calls.clear()

    clean(fs, job_for(log, 0, NOW_MS), lambda _: None)

    assert fs.calls
    assert all(path.endswith(".cleaned") for _, path in fs.calls)


def test_cleaner_throttle_waits_until_the_rate_is_met() -> None:
    now = 10.0
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        nonlocal now
        waits.append(seconds)
        now += seconds

    emitted: list[CleanProgress] = []
    throttle = Throttle(1000.0, emitted.append, lambda: now, sleep)
    throttle(500)
    now += 2.0
    throttle(500)
    throttle(3000)
    assert waits == [0.5, 1.0, 0.5]
    assert emitted == [CleanProgress(1000), CleanProgress(4000)], "no second goes by in silence"


def test_cleaner_throttle_without_a_rate_limit_reports_progress_and_does_not_wait() -> None:
    times = iter([10.0, 10.5, 11.0, 11.9, 12.1])
    emitted: list[CleanProgress] = []
    throttle = Throttle(0.0, emitted.append, lambda: next(times), lambda _: pytest.fail("it waits"))
    for _ in range(4):
        throttle(7)
    assert emitted == [CleanProgress(14), CleanProgress(28)]


def test_segment_shorter_than_the_cleaning_expects_is_reported_as_damage() -> None:
    fs = SimulatedFiles()
    log = open_log(fs, **SETTINGS)
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    log.roll()
    job = job_for(log, 0, NOW_MS)
    data = fs.names[f"{DIRECTORY}/{0:020d}{LOG}"].data
    del data[len(data) // 2 :]

    with pytest.raises(CorruptLog, match="the file ends at this byte"):
        clean(fs, job, lambda _: None)
