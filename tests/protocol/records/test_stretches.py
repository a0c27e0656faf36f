"""Tests that the check of a records section returns the same result as a check of each single
record. The tested check compares consecutive records of equal layout together, as one table."""

from __future__ import annotations

import random

import pytest

from protocol.records import section as section_module
from protocol.records.corrupt import CorruptRecords
from protocol.records.section import CheckedSection, Record, check_section, encode_section
from protocol.records.stretch import Stretch, check_stretch

BASE_MS = 1_700_000_000_000


@pytest.fixture(autouse=True)
def _python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disables the compiled code that checks record sections, so that Python checks them."""
    monkeypatch.setattr(section_module, "_section_times", None)


def random_records(chance: random.Random) -> list[Record]:
    """Returns groups of records. The records of a group have equal key and value sizes, and some
    records have a header, which changes their layout."""
    records: list[Record] = []
    for _ in range(chance.randint(1, 5)):
        key_bytes = chance.choice([None, 0, 8, 70])
        value_bytes = chance.choice([None, 0, 20, 200])
        time_ms = chance.choice([-9000, -50, -1, 0, 30, 60, 8000, 3_000_000])
        for _ in range(chance.choice([1, 2, 40, 90])):
            key = None if key_bytes is None else chance.randbytes(key_bytes)
            value = None if value_bytes is None else chance.randbytes(value_bytes)
            headers = [("h", b"v")] if chance.random() < 0.01 else []
            records.append(Record(len(records), BASE_MS + time_ms, key, value, headers))
            time_ms += chance.choice([0, 0, 1, -1])
    return records


def checked(section: bytes, count: int, base_ms: int = BASE_MS) -> CheckedSection | str:
    """Checks a records section. Returns the result of `check_section`, or the text of its error,
    which names the record and the position."""
    try:
        return check_section(section, count, base_ms, find_null_keys=True)
    except CorruptRecords as error:
        return error.message


def one_by_one(section: bytes, count: int, base_ms: int = BASE_MS) -> CheckedSection | str:
    """Checks a records section with the shortcut for consecutive records of equal layout switched
    off. Returns the result of the check."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(section_module, "TRIALS_MAX", 0)
        return checked(section, count, base_ms)


@pytest.mark.parametrize("seed", range(100))
def test_records_checked_in_stretches_get_the_same_result_as_records_checked_one_by_one(
    seed: int,
) -> None:
    records = random_records(random.Random(seed))
    section, count = encode_section(records, 0, records[0].timestamp)
    found = checked(section, count, records[0].timestamp)
    assert found == CheckedSection(
        [record.offset for record in records if record.key is None],
        min(record.timestamp for record in records),
        max(record.timestamp for record in records),
    )
    assert found == one_by_one(section, count, records[0].timestamp)


@pytest.mark.parametrize("seed", range(60))
def test_check_of_damaged_records_has_the_same_result_in_stretches_and_one_by_one(
    seed: int,
) -> None:
    chance = random.Random(seed)
    section, count = encode_section(random_records(chance), 0, BASE_MS)
    for _ in range(40):
        damaged = bytearray(section)
        for _ in range(chance.choice([1, 1, 3])):
            at = chance.randrange(len(damaged))
            damaged[at] = chance.choice([0, 1, 2, 0x7F, 0x80, damaged[at] ^ 1, damaged[at] ^ 0x80])
        claimed = count + chance.choice([0, 0, 0, -1, 1])
        assert checked(bytes(damaged), claimed) == one_by_one(bytes(damaged), claimed)
        cut = bytes(section[: chance.randrange(len(section))])
        assert checked(cut, count) == one_by_one(cut, count)


@pytest.mark.parametrize("record_bytes", [10, 100])
def test_at_least_990_of_1000_records_of_a_batch_are_checked_in_stretches(
    record_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [
        Record(n, BASE_MS + n // 40, None, random.Random(n).randbytes(record_bytes))
        for n in range(1000)
    ]
    section, count = encode_section(records, 0, records[0].timestamp)
    taken: list[int] = []

    def counted(*arguments: object) -> Stretch:
        found = check_stretch(*arguments)  # type: ignore[arg-type]
        taken.append(found.records)
        return found

    monkeypatch.setattr(section_module, "check_stretch", counted)
    assert checked(section, count) == one_by_one(section, count)
    assert sum(taken) >= 990, "two records of each width of deltas are looked at by themselves"
    assert len(taken) <= 6
