"""The fast check of batches in log recovery has the same result as the slow check, for any
bytes."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from log.batch_scan import checked_batches, whole_batches
from log.errors import CorruptLog
from log.segment import Segment
from tests.log.log_tools import DIRECTORY, batch
from tests.log.test_log_old_messages import MIXED
from tests.simulated_files import SimulatedFiles

FIRST = f"{DIRECTORY}/00000000000000000000.log"
LARGE = batch(14, b"l" * 300)
DATA = b"".join([MIXED, batch(12, b"12"), batch(13), LARGE, batch(15, producer=(7, 1, 3))])
CHUNKS = [70, 200, 500, 1 << 20]
Found = tuple[list[tuple[int, ...]], int | None]


def segment_of(data: bytes) -> Segment:
    fs = SimulatedFiles()
    fs.put(FIRST, data)
    return Segment(fs, DIRECTORY, 0, 1 << 20, create=False)


def gathered(batches: Iterable[tuple[int, ...]]) -> Found:
    """Returns the batches before the first damage, and the position of the damage or None."""
    found: list[tuple[int, ...]] = []
    try:
        for each in batches:
            found.append(tuple(each))
    except CorruptLog as damage:
        return found, damage.position
    return found, None


def quickly(data: bytes, chunk_bytes: int) -> Found:
    return gathered(checked_batches(segment_of(data).file, 0, len(data), chunk_bytes))


def thoroughly(data: bytes) -> Found:
    return gathered(
        (
            at,
            header.size_bytes,
            header.base_offset,
            header.last_offset,
            header.record_count,
            header.partition_leader_epoch,
            header.max_timestamp,
            header.producer_id,
        )
        for _, header, at in whole_batches(segment_of(data).file, 0, len(data))
    )


@pytest.mark.campaign
@pytest.mark.parametrize("chunk_bytes", CHUNKS)
def test_fast_check_of_a_log_finds_the_same_batches_as_the_thorough_check(chunk_bytes: int) -> None:
    found, damaged_at = quickly(DATA, chunk_bytes)

    assert damaged_at is None
    assert (found, damaged_at) == thoroughly(DATA)
    assert [each[3] for each in found] == [0, 1, 4, 5, 6, 9, 11, 12, 13, 14, 15]
    assert sum(each[1] for each in found) == len(DATA)


@pytest.mark.campaign
@pytest.mark.parametrize("chunk_bytes", CHUNKS)
def test_fast_check_of_batches_stops_at_the_same_damage_as_the_slow_check(chunk_bytes: int) -> None:
    differing = []
    for position in range(len(DATA)):
        for damaged in (
            DATA[:position] + bytes([DATA[position] ^ 0x81]) + DATA[position + 1 :],
            DATA[:position],
            DATA[:position] + bytes(len(DATA) - position),
        ):
            if quickly(damaged, chunk_bytes) != thoroughly(damaged):
                differing.append(position)
    assert differing == []


@pytest.mark.parametrize("chunk_bytes", CHUNKS)
def test_batches_with_non_ascending_offsets_are_reported_as_damage(chunk_bytes: int) -> None:
    found, damaged_at = quickly(batch(5) + batch(5), chunk_bytes)

    assert [each[3] for each in found] == [5]
    assert damaged_at == len(batch(5))
