"""The selection of the segments that a cleaning covers, tested without files."""

from __future__ import annotations

import dataclasses

import pytest

from log.cleaner.clean_plan import SegmentFacts, cleanable, group_segments, weighs_too_much
from log.config import LogConfig

MIB = 1024 * 1024
CONFIG = LogConfig(cleanup_policy="compact")


def segments(*sizes: int, offsets: int = 100, index: int = 8) -> list[SegmentFacts]:
    """Returns segments with these sizes, each of which has 100 offsets and is one second newer than
    the previous one. The last segment is active."""
    return [
        SegmentFacts(number * offsets, size, 1000 * (number + 1), index, index)
        for number, size in enumerate(sizes)
    ]


def test_dirty_part_of_a_log_extends_from_the_last_cleaning_to_the_active_segment() -> None:
    found = cleanable(segments(10, 20, 30, 40), 100, 0, CONFIG, 10_000)
    assert (found.first_dirty_offset, found.end_offset) == (100, 300)
    assert (found.clean_bytes, found.dirty_bytes) == (10, 50)
    assert found.dirty_ratio == pytest.approx(50 / 60)


@pytest.mark.parametrize(
    ("checkpoint", "log_start", "first_dirty"),
    [
        (None, 0, 0),
        (None, 120, 120),
        (200, 0, 200),
        (200, 250, 250),
        (301, 0, 0),  # the checkpoint belongs to an earlier, longer log with the same name
    ],
)
def test_dirty_part_of_a_log_begins_at_the_cleaner_checkpoint_or_the_log_start(
    checkpoint: int | None, log_start: int, first_dirty: int
) -> None:
    found = cleanable(segments(10, 10, 10, 10), checkpoint, log_start, CONFIG, 10_000)
    assert found.first_dirty_offset == first_dirty


def test_dirty_part_of_a_log_ends_before_segments_within_min_compaction_lag() -> None:
    config = dataclasses.replace(CONFIG, min_compaction_lag_ms=500)
    facts = segments(10, 10, 10, 10)
    assert cleanable(facts, None, 0, config, 2499).end_offset == 100
    assert cleanable(facts, None, 0, config, 2500).end_offset == 200
    assert cleanable(facts, None, 0, config, 1499).dirty_bytes == 0
    assert cleanable(facts, None, 0, config, 1499).dirty_ratio == 0.0


def test_segment_older_than_the_max_compaction_lag_is_overdue() -> None:
    config = dataclasses.replace(CONFIG, max_compaction_lag_ms=5000)
    facts = segments(10, 10, 10)
    assert not cleanable(facts, None, 0, config, 6000).overdue
    assert cleanable(facts, None, 0, config, 6001).overdue
    assert not cleanable(facts, 100, 0, config, 6001).overdue, "the old one is clean"


def test_groups_of_adjacent_segments_do_not_exceed_the_limits() -> None:
    facts = segments(40, 40, 40, 100, 10, 10)
    assert group_segments(facts, 500, 100, 1000) == [[0, 100], [200], [300], [400]]
    assert group_segments(facts, 500, 220, 1000) == [[0, 100, 200, 300], [400]]
    assert group_segments(facts, 201, 1000, 1000) == [[0, 100, 200]], "none behind the end"
    assert group_segments(segments(1, 1, 1, 1), 300, 1000, 16) == [[0, 100], [200]], "indexes"
    far = segments(1, 1, 1, 1, offsets=2**30)
    assert group_segments(far, 3 * 2**30, 1000, 1000) == [[0, 2**30], [2 * 2**30]], "four bytes"


@pytest.mark.parametrize(
    ("size", "dirty", "live", "heavy"),
    [
        (2 * MIB, 2 * MIB, MIB // 2, True),
        (2 * MIB, 2 * MIB, MIB + 1, False),  # more superseded than live bytes
        (MIB, MIB, 1, False),  # less than 1 MiB is superseded
        (100 * MIB, 49 * MIB, 51 * MIB, False),
        (110 * MIB, 59 * MIB, 51 * MIB, True),
        (100 * MIB, MIB, 1, False),  # young tombstones, which a cleaning would not remove
        (100 * MIB, 20 * MIB, 1, True),
    ],
)
def test_offsets_partition_is_too_large_when_most_of_its_bytes_are_superseded(
    size: int, dirty: int, live: int, heavy: bool
) -> None:
    assert weighs_too_much(size, dirty, live, MIB) is heavy
