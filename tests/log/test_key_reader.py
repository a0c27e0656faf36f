"""Tests of the reader of record keys, which decodes consecutive records of equal layout as one
table."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from log.cleaner import key_reader
from log.cleaner.key_reader import note_keys
from log.cleaner.offset_map import OffsetMap
from protocol.records.corrupt import CorruptRecords
from protocol.records.section import Record, encode_section

BASE = 1_000_000


def expected(records: list[Record]) -> dict[bytes, int]:
    latest: dict[bytes, int] = {}
    for record in records:
        if record.key is not None:
            latest[record.key] = record.offset if record.value is not None else ~record.offset
    return latest


def random_records(chance: random.Random) -> list[Record]:
    """Returns records in groups of equal key size and value size. Some records have headers or no
    key, and some groups are tombstones or have gaps between offsets."""
    records: list[Record] = []
    offset = BASE + chance.choice([0, 40, 8000])
    for _ in range(chance.randint(1, 6)):
        key_bytes = chance.choice([0, 3, 16, 70])
        value_bytes = chance.choice([None, 0, 20, 100])
        time = chance.choice([0, 60, 100, 9000])
        step = chance.choice([1, 1, 1, 2])
        for _ in range(chance.choice([1, 2, 9, 80])):
            value = None if value_bytes is None else chance.randbytes(value_bytes)
            headers = [("h", b"v")] if chance.random() < 0.01 else []
            key = None if chance.random() < 0.02 else chance.randbytes(key_bytes)
            records.append(Record(offset, 5000 + time, key, value, headers))
            time += chance.choice([0, 1, 1])
            offset += step
    return records


@pytest.mark.parametrize("seed", range(300))
def test_key_reader_returns_the_keys_and_offsets_of_the_records(seed: int) -> None:
    records = random_records(random.Random(seed))
    section, count = encode_section(records, BASE, 5000)
    latest: dict[bytes, int] = {}

    key_bytes = note_keys(section, count, BASE, latest)

    assert latest == expected(records)
    assert key_bytes == sum(len(record.key or b"") for record in records)


def test_consecutive_records_whose_bytes_have_the_same_layout_are_read_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    records = [Record(BASE + n, 5000, b"k%05d" % n, b"value") for n in range(5000)]
    section, count = encode_section(records, BASE, 5000)
    taken: list[int] = []
    real = key_reader._take_stretch

    def counted(*arguments: object) -> int:
        taken.append(real(*arguments))  # type: ignore[arg-type]
        return taken[-1]

    monkeypatch.setattr(key_reader, "_compiled_note_keys", None)
    monkeypatch.setattr(key_reader, "_take_stretch", counted)
    latest: dict[bytes, int] = {}
    note_keys(section, count, BASE, latest)

    assert latest == expected(records)
    assert sum(taken) >= 4998, "all but the first of each width of offset delta"


@pytest.mark.parametrize("seed", range(60))
def test_damaged_records_section_is_refused_or_yields_only_bytes_of_the_section(seed: int) -> None:
    chance = random.Random(seed)
    section, count = encode_section(random_records(chance), BASE, 5000)
    for damaged in (
        section[: chance.randrange(len(section))],
        section + b"\0",
    ):
        with pytest.raises(CorruptRecords):
            note_keys(damaged, count, BASE, {})
    flipped = bytearray(section)
    flipped[chance.randrange(len(section))] ^= 1 << chance.randrange(8)
    latest: dict[bytes, int] = {}
    with suppress(CorruptRecords):
        note_keys(bytes(flipped), count, BASE, latest)
    assert all(key in flipped for key in latest)


def test_offset_map_reports_full_before_it_exceeds_its_memory_limit() -> None:
    keys = OffsetMap(10_000)
    assert keys.has_room(10**9, 10**6), "the first batch always"
    section, count = encode_section(
        [Record(BASE + n, 5000, b"k%05d" % n, b"") for n in range(40)], BASE, 5000
    )
    keys.add(section, count, BASE)
    assert not keys.has_room(len(section), count)
    keys.freeze()
    assert list(keys.live_in(BASE + 3, BASE + 5)) == [BASE + 3, BASE + 4, BASE + 5]
    assert list(keys.tombstones_in(BASE, BASE + 40)) == []
