"""Which part of a log to clean: pure arithmetic over its segments, no I/O.

A log is clean up to the *first dirty offset*, where the last cleaning ended, and dirty from there
to its end. Only whole segments before the active one are cleaned.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from log.config import LONG_MAX, LogConfig
from log.segment import RELATIVE_OFFSET_MAX


class SegmentFacts(NamedTuple):
    """What planning reads of a segment; sizes in bytes, time in wall milliseconds."""

    base_offset: int
    size: int
    max_timestamp_ms: int
    index_bytes: int
    time_index_bytes: int


class Cleanable(NamedTuple):
    """How dirty a log is, and up to where it may be cleaned now."""

    first_dirty_offset: int
    end_offset: int
    """Nothing at or above it may be cleaned; the first dirty offset when nothing is cleanable."""
    clean_bytes: int
    dirty_bytes: int
    """Of whole segments between the two offsets."""
    overdue: bool
    """Dirty records have waited for `max.compaction.lag.ms`."""

    @property
    def dirty_ratio(self) -> float:
        """Share of the dirty among what would be read; 0.0 when there is nothing."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0


def cleanable(
    segments: Sequence[SegmentFacts],
    checkpoint: int | None,
    log_start_offset: int,
    config: LogConfig,
    now_ms: int,
    stable: tuple[int, int] = (LONG_MAX, 0),
) -> Cleanable:
    """Judge a log by its ``segments``, the active one last.

    ``checkpoint`` is where the last cleaning ended; one that the log does not reach is not
    believed, as in Kafka. ``stable`` is the offset at which the first open transaction begins, and
    how many bytes of its segment lie before that: what comes behind waits until it ends. A segment
    whose newest record is younger than `min.compaction.lag.ms`, and all behind it, waits too.
    """
    active = segments[-1]
    first_dirty = log_start_offset if checkpoint is None else max(checkpoint, log_start_offset)
    if first_dirty > active.base_offset:
        first_dirty = min(log_start_offset, active.base_offset)
    end_offset = active.base_offset
    clean_bytes = dirty_bytes = 0
    overdue = False
    for segment, following in pairwise(segments):
        if following.base_offset <= first_dirty:
            clean_bytes += segment.size
            continue
        age_ms = now_ms - segment.max_timestamp_ms
        if config.min_compaction_lag_ms > 0 and age_ms < config.min_compaction_lag_ms:
            end_offset = max(first_dirty, segment.base_offset)
            break
        overdue = overdue or age_ms > config.max_compaction_lag_ms
        if stable[0] < following.base_offset:
            reaches = max(first_dirty, segment.base_offset) < stable[0]
            end_offset = following.base_offset if reaches else max(first_dirty, segment.base_offset)
            dirty_bytes += min(stable[1], segment.size) if reaches else 0
            break
        dirty_bytes += segment.size
    return Cleanable(first_dirty, end_offset, clean_bytes, dirty_bytes, overdue)


def changes_in_ms(
    segments: Sequence[SegmentFacts], first_timestamp_ms: int, config: LogConfig, now_ms: int
) -> int | None:
    """In how long time alone next changes what `cleanable` says; None for never.

    ``first_timestamp_ms`` is of the active segment, -1 where it has no record.
    """
    *closed, _ = segments
    times = [each.max_timestamp_ms + config.min_compaction_lag_ms for each in closed]
    times += [each.max_timestamp_ms + config.max_compaction_lag_ms + 1 for each in closed]
    if first_timestamp_ms >= 0:
        times.append(first_timestamp_ms + config.max_compaction_lag_ms + 1)
    return min((each - now_ms for each in times if each > now_ms), default=None)


def group_segments(
    segments: Sequence[SegmentFacts], end_offset: int, segment_bytes: int, index_bytes: int
) -> list[list[int]]:
    """Base offsets of the segments below ``end_offset``, those to be merged into one together.

    Neighbours share a new segment as long as the sum of their old sizes fits `segment.bytes` and
    `segment.index.bytes`, and their offsets fit the indexes' four bytes. The active segment, the
    last of ``segments``, is in no group.
    """
    groups: list[list[int]] = []
    size = index_size = time_index_size = 0
    for segment, following in pairwise(segments):
        if segment.base_offset >= end_offset:
            break
        fits = (
            groups
            and size + segment.size <= segment_bytes
            and index_size + segment.index_bytes <= index_bytes
            and time_index_size + segment.time_index_bytes <= index_bytes
            and following.base_offset - 1 - groups[-1][0] <= RELATIVE_OFFSET_MAX
        )
        if not fits:
            groups.append([])
            size = index_size = time_index_size = 0
        groups[-1].append(segment.base_offset)
        size += segment.size
        index_size += segment.index_bytes
        time_index_size += segment.time_index_bytes
    return groups


def weighs_too_much(size: int, dirty_bytes: int, live_bytes: int, least_bytes: int) -> bool:
    """Whether the owner of an offsets partition should roll and clean it now.

    ``size`` is of the whole log, ``dirty_bytes`` of what no cleaning has seen, the active segment
    included, ``live_bytes`` an estimate of what a cleaning would leave. The dead must outweigh the
    live, and ``least_bytes``. The dirty must also be a quarter of what was cleaned before: what a
    cleaning could not drop (young tombstones) must not make it run again and again for nothing.
    """
    dead_bytes = size - live_bytes
    return (
        dead_bytes >= max(live_bytes, least_bytes)
        and dirty_bytes >= least_bytes
        and 4 * dirty_bytes >= size - dirty_bytes
    )
