"""Decides which part of a log to clean, from the properties of its segments and without I/O.

A log is clean below the *first dirty offset*, at which the last cleaning ended, and dirty from this
offset to the log end. Only whole segments before the active segment are cleaned.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from log.config import LONG_MAX, LogConfig
from log.segment import RELATIVE_OFFSET_MAX


class SegmentFacts(NamedTuple):
    """The properties of a segment that planning uses. Sizes are in bytes, the time is wall
    milliseconds."""

    base_offset: int
    size: int
    max_timestamp_ms: int
    index_bytes: int
    time_index_bytes: int


class Cleanable(NamedTuple):
    """The dirty part of a log, and the offset up to which the log may be cleaned now."""

    first_dirty_offset: int
    end_offset: int
    """The cleaner must not clean records at or above this offset now. If it must not clean any
    record, this is the first dirty offset."""
    clean_bytes: int
    dirty_bytes: int
    """The total size in bytes of the dirty segments. In a segment with an open transaction, only
    the bytes before this transaction count."""
    overdue: bool
    """True if a dirty record is older than `max.compaction.lag.ms`."""

    @property
    def dirty_ratio(self) -> float:
        """The dirty part, from 0 to 1, of the bytes that a cleaning would read; 0.0 if it would
        read 0 bytes."""
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
    """Computes the cleanable part of a log. The last of ``segments`` is the active segment.

    ``checkpoint`` is the offset at which the last cleaning ended. A checkpoint after the active
    segment's base offset is ignored, as in Kafka. ``stable`` is the first offset of the earliest
    open transaction, and the number of bytes that precede it in its segment. Records from this
    offset on are cleaned after the transaction ends.

    A segment whose newest record is younger than `min.compaction.lag.ms` is not cleaned yet, nor
    are the segments after it.
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
    """Returns the time in ms after which `cleanable` may return another result for the unchanged
    log; None if the result can't change before the log changes. ``first_timestamp_ms`` is the first
    timestamp of the active segment; -1 if this segment has no record."""
    *closed, _ = segments
    times = [each.max_timestamp_ms + config.min_compaction_lag_ms for each in closed]
    times += [each.max_timestamp_ms + config.max_compaction_lag_ms + 1 for each in closed]
    if first_timestamp_ms >= 0:
        times.append(first_timestamp_ms + config.max_compaction_lag_ms + 1)
    return min((each - now_ms for each in times if each > now_ms), default=None)


def group_segments(
    segments: Sequence[SegmentFacts], end_offset: int, segment_bytes: int, index_bytes: int
) -> list[list[int]]:
    """Returns groups of segments that begin below ``end_offset``. A group is the list of the base
    offsets of its segments, which are merged into one new segment.

    A group has adjacent segments. The sum of the sizes of its segments fits `segment.bytes` and
    `segment.index.bytes`, and their offsets fit the four bytes of index entries. The active
    segment, the last of ``segments``, is never in a group.
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
    """Returns whether the leader of a partition of `__consumer_offsets` should roll its log and
    clean it now.

    ``size`` is the size of the whole log, and ``dirty_bytes`` the size of the records since the
    last cleaning, including the active segment. ``live_bytes`` is an estimate of the size after a
    cleaning.

    The dead bytes must be at least the live bytes, and at least ``least_bytes``. The dirty bytes
    must also be at least ``least_bytes`` and a quarter of the clean bytes. Otherwise records that a
    cleaning can't remove yet, such as young tombstones, would cause repeated cleanings without
    effect.
    """
    dead_bytes = size - live_bytes
    return (
        dead_bytes >= max(live_bytes, least_bytes)
        and dirty_bytes >= least_bytes
        and 4 * dirty_bytes >= size - dirty_bytes
    )
