"""Determines when the records of topics were written, with ListOffsets requests by time. It reads
no records.

ListOffsets returns the offset and the timestamp of the first record at or after a time. Such a
result is called a point. The records between two neighbouring points form a stretch. They arrived
between the times of the two points. A broker never returns a record of the stretch that is older
than the first record of the stretch.

Requests with large time steps first find the times at which records were written. Around these
times, requests with steps of a minute follow. For an offset that a group committed, requests
approach the offset from both sides. They stop when the points are adjacent, or when the records
around the offset are at most `CLOSE_MS` apart. All requests together stop at a limit of bytes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, NamedTuple

import pyarrow as pa

from pipeline.model.events import STRETCHES
from pipeline.sources.log_times import time_or_none
from pipeline.sources.source import TimesAsked
from pipeline.sources.wire.brokers import Brokers, Partition
from pipeline.sources.wire.listing import EARLIEST, LATEST, Found, list_known

CLOSE_MS: Final = 20
"""If the timestamps of two records differ by at most this number of ms, the reader does not request
the timestamps of the records between these two records."""
GRID_MS: Final = 60_000
GRID_MAX: Final = 1440
"""The maximum number of times in the window for which a run requests offsets. A window of one day
has one such time in each minute; in a longer window, the times are more than a minute apart."""
BEFORE_MAX: Final = 240
"""The maximum number of ListOffsets lookups for timestamps before the start of the window."""
A_DAY_MS: Final = 86_400_000
REST_MS: Final = 3_600_000
"""The minimum duration in ms of a rest: a time in which a log gets no new records. The records
before a rest may be copies from another log (`sql/arrivals.py`)."""
RESTS_MAX: Final = 64
"""A run searches each partition for rests (times without new records), beginning at the log start.
This is the maximum number of requests with which it searches one partition."""
LEAST_BYTES: Final = 1 << 20
"""All ListOffsets requests of a run together may transfer at least this number of bytes. For a long
history they may transfer more."""
ASKS_AT_ONCE: Final = 2_000
ROUNDS: Final = 80
"""The maximum number of rounds of requests in the search for the time of an offset. Half of these
rounds are enough if timestamps are in order, because each round then halves the time span. A log
with timestamps out of order may need all rounds."""


class Point(NamedTuple):
    """The result of a ListOffsets request for the time ``asked_ms``. ``offset`` is the offset of
    the first record that is not older than ``asked_ms``, and ``at_ms`` is the timestamp of this
    record.

    If all records are older, then ``offset`` is the log end offset and ``at_ms`` is None.
    """

    asked_ms: int
    offset: int
    at_ms: int | None


@dataclass
class Topic:
    """The known timestamps in one partition: the results of ListOffsets requests that looked up
    offsets by timestamp."""

    partition: Partition
    start: int
    end: int
    points: list[Point] = field(default_factory=list)
    """The points (times and offsets from ListOffsets responses), in ascending order of the
    requested time and of the offset."""

    def add(self, asked_ms: int, found: Found) -> None:
        """Adds a point: the offset and the timestamp that a broker returned for the time
        ``asked_ms``. A point that conflicts with its neighbours is dropped."""
        if 0 <= found.offset < self.end:
            point = Point(asked_ms, found.offset, found.time_ms)
        else:
            point = Point(asked_ms, self.end, None)
        place = bisect_left(self.points, asked_ms, key=lambda each: each.asked_ms)
        before, behind = self.points[:place][-1:], self.points[place : place + 1]
        # results may conflict if a log is truncated or grows between requests: drop such a point
        if all(each.offset <= point.offset for each in before) and all(
            each.offset >= point.offset and each.asked_ms > asked_ms for each in behind
        ):
            self.points.insert(place, point)

    def around(self, offset: int) -> tuple[Point, Point] | None:
        """Returns the last point at or before an offset, and the first point after this offset.
        Returns None if one of them does not exist."""
        place = bisect_right(self.points, offset, key=lambda each: each.offset)
        if not 0 < place < len(self.points):
            return None
        return self.points[place - 1], self.points[place]

    def went_on(self, first_ms: int, last_ms: int) -> bool:
        """Returns True if more than one record was written between the times ``first_ms`` and
        ``last_ms``. The offsets at both times must have been requested."""
        first, last = (
            bisect_left(self.points, ms, key=lambda each: each.asked_ms)
            for ms in (first_ms, last_ms)
        )
        return last < len(self.points) and self.points[last].offset - self.points[first].offset > 1

    def edges(self) -> list[Point]:
        """Returns the first point of each distinct offset in `points`."""
        first: dict[int, Point] = {}
        for point in self.points:
            first.setdefault(point.offset, point)
        return list(first.values())

    def where_it_may_have_rested(self, now_ms: int) -> int | None:
        """Searches for times longer than REST_MS in which the log got no records. Returns the next
        timestamp whose offset must be requested for this search. Returns None if the known points
        suffice."""
        for lower, upper in pairwise(self.edges()):
            until_ms = now_ms if upper.at_ms is None else upper.at_ms
            if lower.at_ms is None or until_ms - lower.at_ms <= REST_MS:
                continue
            if until_ms - upper.asked_ms <= REST_MS:
                return max(until_ms - REST_MS - 1, lower.at_ms + 1)
        return None

    def stretches(self) -> Iterator[dict[str, Any]]:
        """Yields rows of STRETCHES. Each row covers the records between two neighbouring points of
        `points`."""
        edges = self.edges()
        for lower, upper in pairwise(edges):
            if lower.at_ms is not None and lower.offset < self.end:
                yield from self._between(lower, upper)
        if edges and edges[-1].at_ms is not None:  # a future timestamp bounds nothing after it
            future = edges[-1]
            yield self._row(future.offset, future.offset, future.at_ms, future.at_ms)
            if future.offset + 1 < self.end:
                yield self._row(future.offset + 1, self.end - 1, None, None)

    def _between(self, lower: Point, upper: Point) -> Iterator[dict[str, Any]]:
        """Yields the rows for the records from the offset of ``lower`` to before the offset of
        ``upper``. These records are older than a requested time, because ListOffsets returned
        ``upper`` as the first record at or after that time."""
        assert lower.at_ms is not None
        last_ms = max(lower.at_ms, upper.asked_ms - 1)
        if upper.offset - lower.offset == 1:
            last_ms = lower.at_ms
        yield self._row(lower.offset, upper.offset - 1, lower.at_ms, last_ms)

    def beginning(self, at_ms: int) -> dict[str, Any]:
        """Returns a row of STRETCHES that contains no records, only the log start offset at the
        time ``at_ms``."""
        return self._row(self.start, self.start - 1, at_ms, None)

    def ending(self, at_ms: int) -> dict[str, Any]:
        """Returns the row of STRETCHES that shows the log end offset at a time."""
        return self._row(self.end, self.end - 1, None, at_ms)

    def _row(
        self, base: int, last: int, first_ms: int | None, last_ms: int | None
    ) -> dict[str, Any]:
        topic, number = self.partition
        return {
            "topic": topic,
            "partition": number,
            "base_offset": base,
            "last_offset": last,
            "first_at": None if first_ms is None else time_or_none(first_ms),
            "last_at": None if last_ms is None else time_or_none(last_ms),
            "size_bytes": None,
        }


def ask_times(brokers: Brokers, asked: TimesAsked, now_ms: Callable[[], int]) -> pa.Table:
    """Requests the STRETCHES of topics from the brokers, and the times of the requested offsets.
    Raises Unreachable if no broker answers."""
    return _Asking(brokers, asked, now_ms).stretches()


class _Asking:
    """Sends the ListOffsets requests of one run, in rounds."""

    def __init__(self, brokers: Brokers, asked: TimesAsked, now_ms: Callable[[], int]) -> None:
        self._brokers = brokers
        self._asked = asked
        self._now_ms = now_ms
        self._stop_at = brokers.moved_bytes + LEAST_BYTES + asked.moved_bytes

    def stretches(self) -> pa.Table:
        """Sends all requests. Returns the resulting rows of STRETCHES."""
        asked_at_ms = self._now_ms()
        topics = self._bounded()
        as_of_ms = self._asked.as_of_ms
        since_ms = self._asked.since_ms
        if since_ms is None:
            since_ms = as_of_ms - A_DAY_MS
        edges = dict.fromkeys((as_of_ms + 1, max(asked_at_ms, as_of_ms) + 1, 0, since_ms))
        self._ask([(topic, ms) for ms in edges for topic in topics])
        self._close_in(topics)
        self._fill(topics, since_ms, as_of_ms + 1, GRID_MAX)
        began_ms = [each.points[0].at_ms for each in topics if each.points]
        known_ms = [ms for ms in began_ms if ms is not None and ms < since_ms]
        if known_ms:
            self._fill(topics, min(known_ms), since_ms, BEFORE_MAX)
        self._find_rests(topics, asked_at_ms)
        rows = [
            row
            for topic in topics
            for row in (
                topic.beginning(asked_at_ms),
                *topic.stretches(),
                topic.ending(asked_at_ms),
            )
        ]
        return pa.Table.from_pylist(rows, STRETCHES)

    @property
    def _is_spent(self) -> bool:
        return self._brokers.moved_bytes >= self._stop_at

    def _bounded(self) -> list[Topic]:
        """Returns the partitions in which groups committed and whose log start and end offsets are
        known."""
        wanted = sorted(key for key in self._asked.offsets if key[0] in self._asked.topics)
        starts = list_known(self._brokers, [(each, EARLIEST) for each in wanted])
        ends = list_known(self._brokers, [(each, LATEST) for each in wanted])
        return [
            Topic(partition, start.offset, end.offset)
            for partition, start, end in zip(wanted, starts, ends, strict=True)
            if start is not None and end is not None
        ]

    def _ask(self, asks: Sequence[tuple[Topic, int]]) -> None:
        for begin in range(0, len(asks), ASKS_AT_ONCE):
            if self._is_spent:
                return
            some = asks[begin : begin + ASKS_AT_ONCE]
            found = list_known(self._brokers, [(topic.partition, ms) for topic, ms in some])
            for (topic, ms), answer in zip(some, found, strict=True):
                if answer is not None:
                    topic.add(ms, answer)

    def _close_in(self, topics: Sequence[Topic]) -> None:
        """Narrows down the arrival times of some records. For each record, sends requests until the
        looked-up times before and after the record are close to each other.

        The records are:

        - The record at each offset that a group committed.
        - The record before each committed offset. An approximate time is enough: it only shows
          whether records arrived at the times of their timestamps.
        - The record before the last record of a partition, if the timestamp of the last record is
          in the future. Such a timestamp does not show when the last record arrived.
        """
        held = [
            (topic, offset, close_ms)
            for topic in topics
            for known in self._asked.offsets[topic.partition]
            if topic.start <= known < topic.end
            for offset, close_ms in ((known, 1), (known - 1, GRID_MS))
        ]
        ahead = [(topic, topic.points[-1]) for topic in topics if topic.points]
        held += [(topic, last.offset - 1, 1) for topic, last in ahead if last.at_ms is not None]
        for turn in range(ROUNDS):
            if not held or self._is_spent:
                return
            asks = [
                (topic, offset, close_ms, ms)
                for topic, offset, close_ms in held
                if (ms := _next_ms(topic, offset, close_ms, halve=turn % 2 == 1)) is not None
            ]
            self._ask(_distinct([(topic, ms) for topic, _, _, ms in asks]))
            held = [(topic, offset, close_ms) for topic, offset, close_ms, _ in asks]

    def _fill(self, topics: Sequence[Topic], first_ms: int, last_ms: int, times: int) -> None:
        """Requests the offsets for times between ``first_ms`` and ``last_ms``, first in large
        steps. Then divides each step in which the log got records into smaller steps, and requests
        their offsets."""
        step = max(GRID_MS, -(-(last_ms - first_ms) // times // GRID_MS) * GRID_MS)
        grid = [first_ms, *range((first_ms // step + 1) * step, last_ms, step), last_ms]
        spans = [(topic, 0, len(grid) - 1) for topic in topics]
        while spans and not self._is_spent:
            halves = [
                (topic, first, (first + last) // 2, last)
                for topic, first, last in spans
                if last - first > 1 and topic.went_on(grid[first], grid[last])
            ]
            self._ask([(topic, grid[middle]) for topic, _, middle, _ in halves])
            spans = [
                span
                for topic, first, middle, last in halves
                for span in ((topic, first, middle), (topic, middle, last))
            ]

    def _find_rests(self, topics: Sequence[Topic], now_ms: int) -> None:
        """Searches the logs for rests (times in which a log got no records). Skips a log that every
        group has read to the end."""
        behind = [
            topic
            for topic in topics
            if any(offset < topic.end for offset in self._asked.offsets[topic.partition])
        ]
        for _ in range(RESTS_MAX):
            asks = [
                (topic, ms)
                for topic in behind
                if (ms := topic.where_it_may_have_rested(now_ms)) is not None
            ]
            if not asks or self._is_spent:
                return
            self._ask(asks)
            behind = [topic for topic, _ in asks]


def _distinct(asks: Sequence[tuple[Topic, int]]) -> list[tuple[Topic, int]]:
    found = {(topic.partition, ms): (topic, ms) for topic, ms in asks}
    return list(found.values())


def _next_ms(topic: Topic, offset: int, close_ms: int, *, halve: bool) -> int | None:
    """Returns the timestamp for the next ListOffsets request in the search for the time of the
    record at ``offset``. Returns None if the known points before and after the record are close
    enough.

    With ``halve``, the timestamp is the middle between these two points. Otherwise, it is estimated
    as if records arrived at a constant rate. Callers set ``halve`` in every second call.
    """
    around = topic.around(offset)
    if around is None:
        return None
    lower, upper = around
    if lower.at_ms is None or lower.offset == offset:
        return None
    if upper.at_ms is not None and upper.at_ms - lower.at_ms <= CLOSE_MS:
        return None
    span = upper.asked_ms - lower.at_ms
    if span <= close_ms:
        return None
    part = 0.5 if halve else (offset - lower.offset) / (upper.offset - lower.offset)
    return min(max(lower.at_ms + round(span * part), lower.at_ms + 1), upper.asked_ms - 1)
