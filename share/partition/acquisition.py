"""Acquires records for a member. Source: Kafka 4.3.1 ``SharePartition.acquire``; KIP-1206 (modes),
KIP-1222 (poisonous records)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import attrgetter

from share.partition.acknowledgement import PIECE
from share.partition.locks import Lock
from share.partition.ranges import ACQUIRED, ARCHIVED, Range, Ranges
from share.partition.values import AcquiredRange, AcquireMode, FetchedRecords

_BASE_OFFSET = attrgetter("base_offset")


def poisonous_from(delivery_count_limit: int) -> int:
    """Returns the delivery count from which the broker delivers a record in smaller groups of
    records, because the record may be the reason why members fail."""
    return max(2, -(-delivery_count_limit // 2))


class Acquisition:
    """Acquires some of the fetched records for one member."""

    __slots__ = (
        "_acquired",
        "_batches",
        "_fetched",
        "_left",
        "_limit",
        "_lock",
        "_mode",
        "_pieces",
        "_ranges",
    )

    def __init__(
        self,
        ranges: Ranges,
        lock: Lock,
        fetched: FetchedRecords,
        mode: int,
        delivery_count_limit: int,
    ) -> None:
        self._ranges = ranges
        self._lock = lock
        self._fetched = fetched
        self._batches = fetched.batches
        self._mode = mode
        self._limit = delivery_count_limit
        self._left = 0
        """The number of records that may still be acquired. It is below 0 if the last acquired
        batch exceeded the maximum."""
        self._pieces = PIECE
        """The number of ranges that this step may still change. The limit makes the step end after
        a few milliseconds."""
        self._acquired: list[AcquiredRange] = []

    def run(self, max_records: int, max_record_locks: int) -> list[AcquiredRange]:
        """Acquires available records: first those up to the end offset, then those after the end
        offset, which have never been delivered.

        Returns the acquired ranges in ascending order. A new range begins where the delivery count
        changes.
        """
        ranges = self._ranges
        self._left = max_records
        first = max(self._batches[0].base_offset, ranges.start_offset)
        last = self._batches[-1].last_offset
        # Compaction has removed what the read skipped.
        ranges.archive_available(self._fetched.fetch_offset, first - 1)
        free = max_record_locks - ranges.window()
        end_offset = ranges.end_offset
        suspected_from = poisonous_from(self._limit)
        while self._goes_on() and (found := ranges.next_available(first, last)) is not None:
            if found.count >= suspected_from:
                if not self._acquired:
                    self._acquire_poisonous(found, max(found.first, first), min(found.last, last))
                return self._acquired
            first = self._acquire(max(found.first, first), min(found.last, last), found.count)
        if self._goes_on() and free > 0 and last > end_offset:
            first = max(end_offset + 1, self._batches[0].base_offset)
            if first > end_offset + 1:
                ranges.put(end_offset + 1, first - 1, ARCHIVED, 0)
            # Aborted records count too: they are in flight until the start offset passes them.
            self._acquire(first, min(last, self._end_of_batch(first + free - 1)), 0)
        return self._acquired

    def split(self, acquired: Sequence[AcquiredRange], batch_size: int) -> list[AcquiredRange]:
        """Splits acquired ranges, always at the first offset of a log batch. Each part except the
        last part of a range has at least ``batch_size`` records."""
        split = []
        size = max(batch_size, 1)
        for first, last, count in acquired:
            begin = first
            while last - begin >= size:
                index = bisect_right(self._batches, begin + size - 1, key=_BASE_OFFSET)
                if index == len(self._batches) or self._batches[index].base_offset > last:
                    break
                base = self._batches[index].base_offset
                split.append(AcquiredRange(begin, base - 1, count))
                begin = base
            split.append(AcquiredRange(begin, last, count))
        return split

    def _acquire_poisonous(self, found: Range, first: int, last: int) -> None:
        """Acquires only a part of a range whose records were delivered often: the first half, or
        one record if no further delivery is permitted. A record on which members fail is then
        delivered together with fewer other records.

        Kafka delivers the second half of the range as a whole. Muster halves the second half too.
        """
        records = 1 if found.count >= self._limit - 1 else max(1, len(found) // 2)
        self._mode = AcquireMode.RECORD_LIMIT
        self._left = min(self._left, records)
        self._acquire(first, last, found.count)

    def _acquire(self, first: int, last: int, count: int) -> int:
        """Acquires records that are available or after the end offset, until enough records are
        acquired. Aborted records are archived instead. Returns the next offset."""
        for start, end, aborted in self._segments(first, last):
            if not self._goes_on():
                return start
            self._pieces -= 1
            if aborted:
                self._ranges.put(start, end, ARCHIVED, count)
                continue
            wanted = min(end, self._last_wanted(start))
            self._ranges.put(start, wanted, ACQUIRED, count + 1, self._lock)
            self._left -= wanted - start + 1
            self._add(start, wanted, count + 1)
        return last + 1

    def _goes_on(self) -> bool:
        return self._left > 0 and self._pieces > 0

    def _last_wanted(self, first: int) -> int:
        """Returns the last offset to acquire if the acquisition continues at ``first``. This offset
        depends on the number of records that are still wanted; see `_end_of_batch`."""
        return self._end_of_batch(first + self._left - 1)

    def _end_of_batch(self, last: int) -> int:
        """Returns the last offset of the batch that contains the offset ``last``. In the mode
        RECORD_LIMIT, returns ``last`` itself."""
        if self._mode == AcquireMode.RECORD_LIMIT:
            return last
        index = bisect_right(self._batches, last, key=_BASE_OFFSET) - 1
        return max(last, self._batches[index].last_offset)

    def _segments(self, first: int, last: int) -> Iterator[tuple[int, int, bool]]:
        """Splits the offsets from ``first`` to ``last`` into ranges of aborted and of other
        offsets. Yields (first offset, last offset, whether the range is aborted)."""
        aborted = self._fetched.aborted
        index = max(bisect_right(aborted, (first, first)) - 1, 0) if aborted else 0
        while index < len(aborted) and first <= last:
            begin, end = aborted[index]
            if begin > last:
                break
            if begin > first:
                yield first, begin - 1, False
                first = begin
            if end >= first:
                yield first, min(end, last), True
                first = end + 1
            index += 1
        if first <= last:
            yield first, last, False

    def _add(self, first: int, last: int, count: int) -> None:
        acquired = self._acquired
        if (
            acquired
            and acquired[-1].last_offset + 1 == first
            and acquired[-1].delivery_count == count
        ):
            first = acquired.pop().first_offset
        acquired.append(AcquiredRange(first, last, count))
