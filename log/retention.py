"""Finds the oldest segments that must be deleted because of time, size or the log start offset."""

from __future__ import annotations

from collections.abc import Callable

from log.config import LogConfig
from log.segment import Segment
from log.segments import Segments


def count_leaving(
    segments: Segments,
    config: LogConfig,
    *,
    start_offset: int,
    end_offset: int,
    limit: int,
    now_ms: int,
) -> int:
    """Returns the number of segments, from the start of the log, that retention must delete now.
    Does not count segments whose end offset is above ``limit``, and never counts an empty active
    segment. Raises OSError."""
    all_of_them = segments.with_ends(end_offset)
    count = 0

    def go_on_while(goes: Callable[[Segment, int], bool]) -> None:
        """Counts further segments while ``goes(segment, end offset of the segment)`` is true. Stops
        at ``limit`` and at an empty active segment."""
        nonlocal count
        for segment, end in all_of_them[count:]:
            if end > limit or (not segment.size and segment is segments.active):
                break
            if not goes(segment, end):
                break
            count += 1

    if config.deletes and config.retention_ms >= 0:
        go_on_while(lambda segment, _: now_ms - _time_of(segment) > config.retention_ms)
    if config.deletes and config.retention_bytes >= 0:
        left = [segment.size for segment, _ in all_of_them[count:]]
        surplus = sum(left) - config.retention_bytes

        def is_surplus(segment: Segment, _: int) -> bool:
            nonlocal surplus
            surplus -= segment.size
            return surplus >= 0

        go_on_while(is_surplus)
    go_on_while(lambda _, end: end <= start_offset)
    return count


def idle_ms(segments: Segments, config: LogConfig, *, now_ms: int) -> int | None:
    """Returns the time in ms until retention next deletes the oldest segment, or the files of a
    segment that was already removed from the log. The result assumes that nothing is appended until
    then. Returns None if nothing will be deleted. Raises OSError."""
    times = [leaving.due_ms - now_ms for leaving in segments.pending_deletes]
    first = segments[0]
    if config.deletes and config.retention_ms >= 0 and (first.size or first is not segments.active):
        times.append(_time_of(first) + config.retention_ms + 1 - now_ms)
    return min(times, default=None)


def _time_of(segment: Segment) -> int:
    """Returns the segment's largest timestamp. If the segment has no timestamp, returns the wall
    time of the last write to its file."""
    if segment.max_timestamp_ms >= 0:
        return segment.max_timestamp_ms
    return segment.fs.modified_ms(segment.file.path)
