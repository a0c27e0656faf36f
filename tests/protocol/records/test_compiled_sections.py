"""The compiled check of a records section returns the same result as the check in Python."""

from __future__ import annotations

import mmap
import random

import pytest

from protocol.records import section as section_module
from protocol.records.budget import Budget
from protocol.records.corrupt import CorruptRecords
from protocol.records.section import CheckedSection, Record, check_section, encode_section
from tests.protocol.codecs_both_ways import built
from tests.protocol.records.test_stretches import BASE_MS, random_records

Result = tuple[CheckedSection | str, int]


@pytest.fixture
def both_ways(monkeypatch: pytest.MonkeyPatch) -> Checks:
    return Checks(monkeypatch)


class Checks:
    """Checks a section in Python and with compiled code."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.patch = monkeypatch
        self.compiled = 0
        """The number of sections that compiled code checked without Python."""

    def agree(self, section: bytes, count: int, base_ms: int, find_null_keys: bool) -> Result:
        """Asserts that both ways have the same result, and that both charge the budget equally.
        Returns the result: a checked section or the text of an error, and the elements left."""
        times = built().section_times
        self.compiled += times(section, count, base_ms, find_null_keys) is not None
        self.patch.setattr(section_module, "_section_times", None)
        python = self._checked(section, count, base_ms, find_null_keys)
        self.patch.setattr(section_module, "_section_times", times)
        assert self._checked(section, count, base_ms, find_null_keys) == python
        return python

    def _checked(self, section: bytes, count: int, base_ms: int, find_null_keys: bool) -> Result:
        budget = Budget(1 << 20, 40, 0)
        try:
            found = check_section(section, count, base_ms, find_null_keys, budget)
        except CorruptRecords as error:
            return str(error), 0
        return found, budget.elements_left


@pytest.mark.parametrize("seed", range(60))
def test_compiled_check_of_random_records_has_the_result_of_python(
    seed: int, both_ways: Checks
) -> None:
    chance = random.Random(seed)
    records = random_records(chance)
    section, count = encode_section(records, 0, records[0].timestamp)
    both_ways.agree(section, count, records[0].timestamp, find_null_keys=False)
    assert both_ways.compiled == 1
    both_ways.agree(section, count, records[0].timestamp, find_null_keys=True)
    assert both_ways.compiled == 1 + all(record.key is not None for record in records)


@pytest.mark.parametrize("seed", range(60))
def test_compiled_check_of_damaged_records_has_the_result_of_python(
    seed: int, both_ways: Checks
) -> None:
    chance = random.Random(seed)
    section, count = encode_section(random_records(chance), 0, BASE_MS)
    for _ in range(40):
        damaged = bytearray(section)
        for _ in range(chance.choice([1, 1, 3])):
            at = chance.randrange(len(damaged))
            damaged[at] = chance.choice([0, 1, 2, 0x7F, 0x80, damaged[at] ^ 1, damaged[at] ^ 0x80])
        claimed = count + chance.choice([0, 0, 0, -1, 1])
        both_ways.agree(bytes(damaged), claimed, BASE_MS, chance.random() < 0.5)
        both_ways.agree(section[: chance.randrange(len(section))], count, BASE_MS, False)


@pytest.mark.parametrize(
    ("base_ms", "deltas", "times"),
    [
        ((1 << 63) - 1, (0, 1), ((1 << 63) - 1, -(1 << 63))),
        (-(1 << 63), (-1, 0), ((1 << 63) - 1, -(1 << 63))),
        (5, (-3, -2), (2, 3)),
        (5, (2, 3), (5, 8)),
    ],
    ids=("overflow", "underflow", "only negative deltas", "only positive deltas"),
)
def test_compiled_check_of_extreme_timestamps_has_the_result_of_python(
    base_ms: int, deltas: tuple[int, int], times: tuple[int, int], both_ways: Checks
) -> None:
    section = b"".join(
        bytes((14, 0, delta << 1 if delta >= 0 else -2 * delta - 1, index << 1, 1, 2, 65, 0))
        for index, delta in enumerate(deltas)
    )
    found, _ = both_ways.agree(section, 2, base_ms, find_null_keys=False)
    assert isinstance(found, CheckedSection)
    assert (found.min_timestamp, found.max_timestamp) == times


def test_compiled_check_rejects_more_headers_than_the_budget_allows(both_ways: Checks) -> None:
    headers = [(f"h{number}", None) for number in range(41)]
    section, _ = encode_section([Record(0, BASE_MS, None, None, headers)], 0, BASE_MS)
    text, _ = both_ways.agree(section, 1, BASE_MS, find_null_keys=False)
    assert both_ways.compiled == 1
    assert text == "The request has too many records and headers; send smaller requests."


def test_compiled_check_reads_a_section_in_a_memory_map() -> None:
    section, count = encode_section(random_records(random.Random(1)), 0, BASE_MS)
    with mmap.mmap(-1, len(section)) as mapped:
        mapped[:] = section
        times = built().section_times(mapped, count, BASE_MS, False)
    assert times is not None
    assert times == built().section_times(section, count, BASE_MS, False)
