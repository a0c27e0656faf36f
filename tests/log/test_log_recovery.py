"""After an unclean stop, a torn tail is truncated and reported, but a log with damage in flushed
records is not opened."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest

from log.batch_scan import Header, headers
from log.errors import CorruptLog
from log.files.filesystem import File
from protocol.records.batch import read_header
from tests.log.log_tools import DIRECTORY, append_values, batch, open_log, values
from tests.simulated_files import SimulatedFiles

FIRST = f"{DIRECTORY}/00000000000000000000.log"
SECOND = f"{DIRECTORY}/00000000000000000003.log"
SMALL = {"segment_bytes": 220, "index_interval_bytes": 0}  # three batches of 69 bytes per segment


def three_batches() -> bytes:
    return b"".join(batch(offset, b"%d" % offset) for offset in range(3))


def two_segments() -> SimulatedFiles:
    """Returns the files of a killed log with offsets 0 to 2 in the first segment and 3 to 4 in the
    second segment."""
    fs = SimulatedFiles()
    append_values(open_log(fs, **SMALL), *(b"%d" % offset for offset in range(5)))
    assert len(fs.written(FIRST)) == 207
    assert len(fs.written(SECOND)) == 138
    return fs


def test_recovery_checks_an_undamaged_log_and_truncates_no_record() -> None:
    fs = two_segments()
    log = open_log(fs, **SMALL)

    assert log.recovery.cuts == []
    assert log.recovery.checked_bytes == 345
    assert (log.log_start_offset, log.log_end_offset) == (0, 5)
    assert values(log) == [(offset, b"%d" % offset) for offset in range(5)]


@pytest.mark.parametrize("end", range(207))
def test_torn_tail_is_truncated_after_the_last_whole_batch(end: int) -> None:
    fs = SimulatedFiles()
    fs.put(FIRST, three_batches()[:end])

    log = open_log(fs)

    whole = end // 69
    assert values(log) == [(offset, b"%d" % offset) for offset in range(whole)]
    assert log.log_end_offset == whole
    if end % 69:
        [cut] = log.recovery.cuts
        assert (cut.file, cut.position, cut.bytes_cut) == (FIRST, whole * 69, end % 69)
        assert cut.reason
        assert cut.kept_as is None
    else:
        assert log.recovery.cuts == []
    assert len(fs.written(FIRST)) == whole * 69
    append_values(log, b"next")
    assert values(log)[-1] == (whole, b"next")


@pytest.mark.parametrize("position", range(207))
def test_log_with_a_flipped_bit_returns_only_written_records(position: int) -> None:
    data = bytearray(three_batches())
    data[position] ^= 0x01
    fs = SimulatedFiles()
    fs.put(FIRST, bytes(data))

    log = open_log(fs)

    written = [(offset, b"%d" % offset) for offset in range(3)]
    found = values(log)
    in_batch, field = divmod(position, 69)
    if 12 <= field < 16:  # the checksum does not cover the leader epoch
        assert found == written
    elif field < 8:  # nor the base offset; recovery checks its order and allows gaps
        assert found[:in_batch] == written[:in_batch]
        assert [value for _, value in found] == [value for _, value in written[: len(found)]]
        assert len(found) == 3 or log.recovery.cuts
    else:
        assert found == written[:in_batch]
        assert log.recovery.cuts[0].position == in_batch * 69


@pytest.mark.parametrize("count", [1, 12, 60, 61, 4096, 3_000_000])
def test_zeros_after_the_last_batch_are_truncated(count: int) -> None:
    fs = SimulatedFiles()
    fs.put(FIRST, three_batches() + bytes(count))

    log = open_log(fs)

    assert log.log_end_offset == 3
    assert log.recovery.bytes_cut == count


def test_truncation_at_damage_removes_the_later_segments() -> None:
    fs = two_segments()
    fs.names[FIRST].data[170] ^= 0xFF

    log = open_log(fs, **SMALL)

    assert values(log) == [(0, b"0"), (1, b"1")]
    assert [(cut.file, cut.position, cut.bytes_cut) for cut in log.recovery.cuts] == [
        (FIRST, 138, 69),
        (SECOND, 0, 138),
    ]
    assert not fs.exists(SECOND)


@pytest.mark.parametrize("position", [69 + 20, 69 + 10, 69 + 16, 69 + 65])
def test_batches_after_damage_are_copied_to_a_file_with_suffix_cut(position: int) -> None:
    fs = SimulatedFiles()
    data = bytearray(three_batches())
    data[position] ^= 0x10
    fs.put(FIRST, bytes(data))

    log = open_log(fs)

    assert values(log) == [(0, b"0")]
    [cut] = log.recovery.cuts
    assert cut.kept_as == FIRST + ".cut"
    assert fs.written(cut.kept_as) == data[69:]
    append_values(log, b"1")
    log.close()
    assert values(open_log(fs, clean=True)) == [(0, b"0"), (1, b"1")]
    assert fs.written(cut.kept_as) == data[69:]


def test_segments_after_damage_are_kept_in_files_with_suffix_cut() -> None:
    fs = two_segments()
    second = fs.written(SECOND)
    fs.names[FIRST].data[170] ^= 0xFF

    cuts = open_log(fs, **SMALL).recovery.cuts

    assert [cut.kept_as for cut in cuts] == [None, SECOND + ".cut"]
    assert fs.written(SECOND + ".cut") == second


@pytest.mark.parametrize("recovery_point", [3, 4, 5])
def test_damage_below_the_recovery_point_is_refused_with_file_and_position(
    recovery_point: int,
) -> None:
    fs = two_segments()
    fs.names[FIRST if recovery_point == 3 else SECOND].data[40] ^= 0xFF
    before = {path: fs.written(path) for path in (FIRST, SECOND)}

    with pytest.raises(CorruptLog) as caught:
        open_log(fs, recovery_point=recovery_point, **SMALL)

    assert caught.value.file == (FIRST if recovery_point == 3 else SECOND)
    assert caught.value.position == 0
    assert str(recovery_point) in str(caught.value)
    assert {path: fs.written(path) for path in (FIRST, SECOND)} == before


def test_log_that_ends_below_its_recovery_point_is_refused() -> None:
    fs = SimulatedFiles()
    fs.put(FIRST, three_batches()[:138])

    with pytest.raises(CorruptLog, match="recovery point 3"):
        open_log(fs, recovery_point=3)
    with pytest.raises(CorruptLog, match="recovery point 3"):
        open_log(fs, recovery_point=3, clean=True)


def test_recovery_does_not_check_segments_below_the_recovery_point() -> None:
    fs = two_segments()
    log = open_log(fs, **SMALL)
    assert log.flush() == 5

    again = open_log(fs, recovery_point=log.recovery_point, **SMALL)

    assert again.recovery.checked_bytes == 138
    assert values(again) == [(offset, b"%d" % offset) for offset in range(5)]


@pytest.mark.parametrize("producer_id", [-1, 7])
def test_recovery_reads_headers_again_only_when_the_log_has_producers(
    producer_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second read of the batch headers rebuilds the state of the producers. A log without
    producers does not need this read."""
    files = SimulatedFiles()
    log = open_log(files)
    log.append(batch(0, b"a", producer=(producer_id, 0, 0)), 0, 1)
    reads = []

    def spy(file: File, position: int, end: int) -> Iterator[Header]:
        reads.append(file.path)
        return headers(file, position, end)

    monkeypatch.setattr("log.fold.headers", spy)
    again = open_log(files)
    assert len(reads) == len(again.producers) == (producer_id >= 0)
    again.append(batch(0, b"b", producer=(8, 0, 0)), 0, 2)
    assert again.producers.highest_id == 8
    again.append(batch(0, b"c"), 0, 3)
    assert again.truncate_to(2, 4) == 2
    assert again.producers.highest_id == 8, "what recovery knew is not used for what came later"


def test_batches_are_not_checked_after_a_clean_stop() -> None:
    fs = two_segments()
    open_log(fs, **SMALL).close()

    log = open_log(fs, clean=True, recovery_point=5, **SMALL)

    assert log.recovery.checked_bytes == 0
    assert log.log_end_offset == 5
    assert values(log, 4) == [(4, b"4")]


def test_log_that_ends_with_a_partial_batch_is_refused_after_a_clean_stop() -> None:
    fs = SimulatedFiles()
    fs.put(FIRST, three_batches()[:200])

    with pytest.raises(CorruptLog) as caught:
        open_log(fs, clean=True)
    assert caught.value.position == 138


def test_scan_raises_an_error_at_damage_after_a_clean_stop() -> None:
    fs = SimulatedFiles()
    data = bytearray(three_batches())
    data[69 + 65] ^= 0x01
    fs.put(FIRST, bytes(data))
    log = open_log(fs, clean=True)

    with pytest.raises(CorruptLog) as caught:
        values(log)
    assert (caught.value.file, caught.value.position) == (FIRST, 69)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "empty", "zeros", "foreign", "half an entry"])
@pytest.mark.parametrize("clean", [True, False])
def test_missing_or_wrong_indexes_are_rebuilt(suffix: str, damage: str, clean: bool) -> None:
    fs = two_segments()
    open_log(fs, **SMALL).close()
    path = FIRST.removesuffix(".log") + suffix
    good = fs.written(path)
    data = fs.names[path].data
    if damage == "missing":
        fs.lose(path)
    elif damage == "half an entry":
        data += b"\x00\x00\x01"
    else:
        data[:] = {"empty": b"", "zeros": bytes(10_000), "foreign": b"\xff" * len(good)}[damage]

    log = open_log(fs, clean=clean, recovery_point=5, **SMALL)

    for offset in range(5):
        data = log.read(offset, 69).data
        assert read_header(data).base_offset == offset
    if damage in ("missing", "foreign"):
        assert fs.written(path) == good
        [sentence] = log.recovery.rebuilt
        assert path in sentence


@pytest.mark.parametrize("recovery_point", [0, 2])
def test_segments_after_a_gap_are_truncated_after_a_power_loss(recovery_point: int) -> None:
    fs = two_segments()
    del fs.names[FIRST].data[138:]

    log = open_log(fs, recovery_point=recovery_point, **SMALL)

    assert values(log) == [(0, b"0"), (1, b"1")]
    [cut] = log.recovery.cuts
    assert (cut.file, cut.bytes_cut, cut.kept_as) == (SECOND, 138, SECOND + ".cut")
    append_values(log, b"new")
    assert values(log)[-1] == (2, b"new")


def test_gap_between_segments_of_a_compacted_log_is_accepted() -> None:
    fs = two_segments()
    del fs.names[FIRST].data[138:]

    log = open_log(fs, cleanup_policy="compact", **SMALL)

    assert [offset for offset, _ in values(log)] == [0, 1, 3, 4]
    assert log.recovery.cuts == []


def test_gap_inside_a_segment_is_accepted() -> None:
    fs = two_segments()
    fs.names[FIRST].data[:] = batch(1, b"1")  # a cleaning removed offsets 0 and 2

    log = open_log(fs, **SMALL)

    assert values(log) == [(1, b"1"), (3, b"3"), (4, b"4")]
    assert log.recovery.cuts == []


def test_interrupted_deletions_and_cleanings_are_completed() -> None:
    fs = two_segments()
    base = os.path.splitext(SECOND)[0]
    cleaned = batch(3, b"3") + batch(4, b"4")
    fs.put(f"{DIRECTORY}/00000000000000000000.log.deleted", b"old")
    fs.put(f"{DIRECTORY}/00000000000000000009.index", b"orphan")
    fs.put(f"{DIRECTORY}/00000000000000000003.log.swap", cleaned[69:])

    log = open_log(fs, **SMALL)

    assert values(log) == [(0, b"0"), (1, b"1"), (2, b"2"), (4, b"4")]
    assert set(log.recovery.removed) == {
        f"{DIRECTORY}/00000000000000000009.index",
        *(f"{base}{suffix}" for suffix in (".log", ".index", ".timeindex", ".txnindex")),
    }
    log.apply_retention(0)
    assert not fs.exists(f"{DIRECTORY}/00000000000000000000.log.deleted")


def test_open_removes_the_files_of_an_unfinished_cleaning() -> None:
    fs = two_segments()
    fs.put(f"{DIRECTORY}/00000000000000000000.log.cleaned", b"half")
    fs.put(f"{DIRECTORY}/00000000000000000003.log.swap", b"half")

    log = open_log(fs, **SMALL)

    assert [offset for offset, _ in values(log)] == [0, 1, 2, 3, 4]
    assert [name for name in fs.list(DIRECTORY) if not name.endswith((".log", "index"))] == [
        "00000000000000000003.snapshot",
        "leader-epoch-checkpoint",
    ]


def test_log_that_ends_below_its_start_offset_is_reset_to_the_start_offset() -> None:
    fs = SimulatedFiles()
    fs.put(FIRST, three_batches())

    log = open_log(fs, log_start_offset=10)

    assert (log.log_start_offset, log.log_end_offset) == (10, 10)
    assert log.recovery.bytes_cut == 207
    assert fs.list(DIRECTORY)[:2] == ["00000000000000000000.log.cut", "00000000000000000010.log"]


@pytest.mark.parametrize("seed", range(20))
def test_leader_epoch_after_a_power_loss_is_higher_than_all_earlier_epochs(seed: int) -> None:
    """A coordinator writes its leader epoch into transaction markers. Data partitions refuse a
    marker with a lower epoch than that of an earlier marker."""
    chance = random.Random(seed)
    fs = SimulatedFiles()
    begun = []
    for life in range(5):
        log = open_log(fs)
        append_values(log, b"%d" % life)
        log.begin_epoch()
        begun.append(log.epochs.latest)
        fs.lose_power(chance)
    assert begun == sorted(set(begun))
