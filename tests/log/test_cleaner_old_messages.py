"""Cleanings of a log that has messages of magic 0 and 1, with or without later batches of magic
2."""

from __future__ import annotations

import random

import pytest

from log.cleaner.clean_job import CleanDone
from log.errors import CorruptLog
from log.partition_log import PartitionLog
from protocol.records.batch import encode_batch
from protocol.records.message_set import encode
from protocol.records.section import Record
from protocol.records.stored import stored_records
from tests.log.cleaning_tools import RETENTION_MS, SETTINGS, clean_log, last_by_key
from tests.log.log_tools import DIRECTORY, NOW_MS, open_log
from tests.simulated_files import SimulatedFiles

CODECS_OF_OLD = (0, 0, 1, 2, 3)


def entries(log: PartitionLog) -> list[tuple[int, int, list[Record]]]:
    """Returns magic, codec and records of each batch or message of the log."""
    return [
        (header.magic, header.compression, list(stored_records(buffer, header)))
        for buffer, header in log.scan()
    ]


def all_records(log: PartitionLog) -> list[Record]:
    return [record for _, _, records in entries(log) for record in records]


class OldLog:
    """A log with random appends by clients of several versions. The attribute `every` lists all
    appended records."""

    def __init__(self, seed: int, magics: tuple[int, ...]) -> None:
        self.chance = random.Random(seed)
        self.magics = magics
        self.log = open_log(SimulatedFiles(), **SETTINGS)
        self.now_ms = NOW_MS
        self.every: list[Record] = []
        self.first_dirty = 0

    def append(self, times: int) -> None:
        chance = self.chance
        for _ in range(times):
            self.now_ms += chance.randint(0, 40)
            magic = chance.choice(self.magics)
            records = [
                Record(
                    index,
                    self.now_ms if magic else -1,
                    None if chance.random() < 0.05 else b"k%d" % chance.randrange(9),
                    None if chance.random() < 0.2 else chance.randbytes(chance.choice([0, 40])),
                )
                for index in range(chance.randint(1, 7))
            ]
            codec = chance.choice(CODECS_OF_OLD)
            first = self.log.log_end_offset
            if magic == 2:
                data = encode_batch(records, compression=codec)
            else:
                data = encode(records, magic, codec)
            self.log.append(data, 0, self.now_ms)
            self.every += [record._replace(offset=first + record.offset) for record in records]

    def clean(self, **fields: int) -> CleanDone:
        self.log.roll()
        done = clean_log(self.log, self.first_dirty, self.now_ms, **fields)
        self.first_dirty = done.end_offset
        return done


@pytest.mark.parametrize("magics", [(0,), (1,), (0, 1, 2)])
@pytest.mark.parametrize("seed", range(8))
def test_cleaned_log_has_the_last_record_of_each_key(seed: int, magics: tuple[int, ...]) -> None:
    old = OldLog(seed, magics)
    for _ in range(3):
        old.append(old.chance.randint(5, 40))
        done = old.clean(**old.chance.choice([{}, {"map_bytes": 3000}]))
        found = all_records(old.log)
        assert set(found) <= set(old.every), "what stays is as it came, at its offset"
        assert [r.offset for r in found] == sorted({r.offset for r in found})
        wanted = last_by_key(old.every)
        kept = last_by_key(found)
        for key, record in wanted.items():
            assert kept.get(key) == record or (record.value is None and key not in kept)
        assert {magic for magic, _, _ in entries(old.log)} <= set(magics) | {2}
        assert done.records_read >= done.records_kept
    assert len(found) < len(old.every) / 2
    again = open_log(old.log.fs, **SETTINGS)
    assert all_records(again) == found
    assert again.log_end_offset == old.log.log_end_offset


@pytest.mark.parametrize("magic", [0, 1])
def test_wrapper_keeps_codec_and_timestamp_when_the_cleaner_removes_some_messages(
    magic: int,
) -> None:
    log = open_log(SimulatedFiles(), **SETTINGS, message_timestamp_type="LogAppendTime")
    records = [Record(n, NOW_MS if magic else -1, b"k%d" % (n % 2), b"%d" % n) for n in range(6)]
    log.append(encode(records, magic, 1), 0, NOW_MS + 50)
    log.append(encode([Record(0, 1, b"other", b"")], magic), 0, NOW_MS + 60)
    log.roll()
    clean_log(log, 0, NOW_MS)
    time_ms = NOW_MS + 50 if magic else -1
    assert entries(log)[0] == (
        magic,
        1,
        [Record(4, time_ms, b"k0", b"4"), Record(5, time_ms, b"k1", b"5")],
    )


def test_old_tombstone_is_removed_by_the_second_cleaning() -> None:
    log = open_log(SimulatedFiles(), **SETTINGS)
    tombstone = Record(1, NOW_MS, b"gone", None)
    log.append(encode([Record(0, NOW_MS, b"gone", b"1"), tombstone], 1), 0, NOW_MS)
    log.append(encode([Record(0, NOW_MS, b"stays", b"1")], 1), 0, NOW_MS)
    log.roll()
    first_dirty = clean_log(log, 0, NOW_MS + RETENTION_MS).end_offset
    assert tombstone in all_records(log), "the first cleaning that sees it leaves it"
    for now_ms, stays in ((NOW_MS + RETENTION_MS - 1, True), (NOW_MS + RETENTION_MS, False)):
        log.append(encode([Record(0, NOW_MS, b"new%d" % now_ms, b"1")], 1), 0, NOW_MS)
        log.roll()
        first_dirty = clean_log(log, first_dirty, now_ms).end_offset
        assert (tombstone in all_records(log)) == stays


def test_damage_in_an_old_message_is_reported_with_its_position() -> None:
    log = open_log(SimulatedFiles(), **SETTINGS)
    first = encode([Record(0, NOW_MS, b"a", b"1")], 1)
    log.append(first + encode([Record(1, NOW_MS, b"b", b"2")], 1), 0, NOW_MS)
    log.roll()
    log.segments[0].file.write(len(first) + 30, b"\xff")
    with pytest.raises(CorruptLog, match=str(len(first))) as damage:
        clean_log(log, 0, NOW_MS)
    assert damage.value.file.startswith(DIRECTORY)
