"""The in-flight records of a share partition, as ranges of offsets.

Invariants: each offset from the start offset to the end offset is in exactly one range, and the
ranges are in ascending order. After each operation the first range is not in a final state.
Adjacent ranges with equal values are joined, unless one of them has a pending transition. So there
is one range per offset only if members treat each offset differently.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from operator import attrgetter

from share.partition.locks import Lock, Locks
from share.partition.values import Change
from share.values import DeliveryState

AVAILABLE = DeliveryState.AVAILABLE
ACQUIRED = DeliveryState.ACQUIRED
ARCHIVED = DeliveryState.ARCHIVED

_FIRST = attrgetter("first")


def is_final(state: DeliveryState) -> bool:
    """Returns True for ACKNOWLEDGED and ARCHIVED. Records in these states are not delivered
    again."""
    return state > ACQUIRED


class Transition:
    """A change of the state of some records that is not stored by the share coordinator yet."""

    __slots__ = ("change", "kind", "state")

    def __init__(self, state: DeliveryState, kind: str) -> None:
        self.state = state
        """The state of the records after the transition."""
        self.kind = kind
        """Why the delivery ends; one of the values of `Outcome.kind`."""
        self.change: Change | None = None
        """The change that contains the transition; None until the change is complete."""


class Range:
    """Consecutive offsets whose records have the same state, delivery count and lock. The first and
    the last offset are included."""

    __slots__ = ("count", "first", "last", "lock", "state", "transition")

    def __init__(
        self,
        first: int,
        last: int,
        state: DeliveryState,
        count: int,
        lock: Lock | None = None,
        transition: Transition | None = None,
    ) -> None:
        self.first = first
        self.last = last
        self.state = state
        """The state of the records. During a pending transition, it is still the old state."""
        self.count = count
        self.lock = lock
        """The acquisition lock if the state is ACQUIRED, otherwise None."""
        self.transition = transition
        """The pending transition of ACQUIRED records, or None."""

    def __len__(self) -> int:
        return self.last - self.first + 1

    def is_available(self) -> bool:
        """Returns True if a member may acquire the records."""
        return self.state == AVAILABLE

    def is_complete(self) -> bool:
        """Returns True if the records are in a final state, or will be once their transition is
        stored."""
        return is_final(self.state if self.transition is None else self.transition.state)

    def continues(self, before: Range) -> bool:
        """Returns True if this range has the same values as ``before``, the range directly before
        it."""
        return (
            self.state == before.state
            and self.count == before.count
            and self.lock is before.lock
            and self.transition is before.transition
        )


class Ranges:
    """The in-flight records of one share partition, as ranges from the start offset to the end
    offset."""

    __slots__ = (
        "_available_from",
        "_near",
        "_ranges",
        "complete_count",
        "end_offset",
        "locks",
        "start_offset",
    )

    def __init__(self, start_offset: int) -> None:
        self.start_offset = start_offset
        self.end_offset = start_offset - 1
        self.complete_count = 0
        """The number of records in all ranges for which `Range.is_complete` is true."""
        self.locks = Locks()
        self._ranges: list[Range] = []
        self._near = 0
        """The index of the range that was split or found last. The next search starts there."""
        self._available_from = start_offset
        """A lower bound of the offsets of available records."""

    def __iter__(self) -> Iterator[Range]:
        return iter(self._ranges)

    def window(self) -> int:
        """Returns the number of offsets from the start offset to the end offset."""
        return self.end_offset - self.start_offset + 1

    def overlapping(self, first: int, last: int) -> Iterator[Range]:
        """Yields the ranges that overlap the in-flight offsets from ``first`` to ``last``; none if
        ``first`` is after ``last``. The caller may change their values, but may not split or join
        ranges."""
        if first > last:
            return
        ranges = self._ranges
        for index in range(self._index(first), len(ranges)):
            if ranges[index].first > last:
                return
            yield ranges[index]

    def next_available(self, first: int, last: int) -> Range | None:
        """Returns the first range with an available record from ``first`` to ``last``, or None."""
        first = max(first, self._available_from, self.start_offset)
        for found in self.overlapping(first, min(last, self.end_offset)):
            if found.is_available():
                return found
        return None

    def first_available(self) -> int | None:
        """Returns the first available offset; None if no record is available."""
        found = self.next_available(self.start_offset, self.end_offset)
        if found is None:
            self._available_from = self.end_offset + 1
            return None
        self._available_from = found.first
        return found.first

    def put(
        self, first: int, last: int, state: DeliveryState, count: int, lock: Lock | None = None
    ) -> None:
        """Sets the state, the delivery count and the lock of the offsets from ``first`` to
        ``last``. These must be offsets within one range of available records, or new offsets
        directly after the end offset."""
        ranges = self._ranges
        if first > self.end_offset:
            index = len(ranges)
            ranges.append(Range(first, last, state, count, lock))
            self.end_offset = last
        else:
            index = self._split(first)
            changed = ranges[index]
            if changed.last != last:
                self._split(last + 1)
            changed.state, changed.count, changed.lock = state, count, lock
        if lock is not None:
            self.locks.hold(lock, first, last)
        if is_final(state):
            self.complete_count += last - first + 1
        elif state == AVAILABLE and first < self._available_from:
            self._available_from = first
        self._join(index, index + 1)

    def archive_available(self, first: int, last: int) -> None:
        """Archives the available records from ``first`` to ``last``."""
        while (found := self.next_available(first, last)) is not None:
            end = min(found.last, last)
            self.put(max(found.first, first), end, ARCHIVED, found.count)
            first = end + 1

    def carve(self, first: int, last: int) -> list[Range]:
        """Splits ranges at ``first`` and after ``last``. Both offsets must be in flight. Returns
        the ranges from ``first`` to ``last``."""
        index = self._split(first)
        found = self._ranges[index]
        if found.last == last:
            return [found]
        end = self._split(last + 1)
        return self._ranges[index:end]

    def begin(self, begun: Range, transition: Transition) -> None:
        """Begins a transition of an acquired range. The transition is pending from now on."""
        begun.transition = transition
        if is_final(transition.state):
            self.complete_count += begun.last - begun.first + 1

    def lock_again(self, first: int, last: int, lock: Lock) -> None:
        """Replaces the acquisition lock of acquired records by ``lock``."""
        for each in self.carve(first, last):
            if each.lock is not None:
                self.locks.drop(each.lock, len(each))
            each.lock = lock
        self.locks.hold(lock, first, last)
        self.join(first, last)

    def settle(self, settled: Range, state: DeliveryState) -> None:
        """Ends the pending transition of a range, and sets the state of the range to ``state``. If
        ``state`` is ACQUIRED, the records stay under their lock.

        The caller must call `join` and `move_start` afterwards.
        """
        records = len(settled)
        self.complete_count += records * (is_final(state) - settled.is_complete())
        settled.state = state
        settled.transition = None
        if state != ACQUIRED and settled.lock is not None:
            self.locks.drop(settled.lock, records)
            settled.lock = None
        if state == AVAILABLE and settled.first < self._available_from:
            self._available_from = settled.first

    def join(self, first: int, last: int) -> None:
        """Joins adjacent ranges with equal values. This affects the ranges with offsets from
        ``first`` to ``last``, and the ranges directly before and after them. Both offsets must be
        in flight."""
        if first <= last:
            self._join(self._index(first), self._index(last) + 1)

    def drop_before(self, offset: int) -> None:
        """Moves the start offset to ``offset``, whatever the state of the records before it."""
        end = self._split(min(offset, self.end_offset + 1))
        dropped = self._ranges[:end]
        del self._ranges[:end]
        complete = 0
        held: dict[Lock, int] = {}
        for each in dropped:  # up to 90,000: without calls, 7 ms
            lock = each.lock
            if lock is not None:
                if lock in held:
                    held[lock] += each.last - each.first + 1
                else:
                    held[lock] = each.last - each.first + 1
                if each.transition is not None and is_final(each.transition.state):
                    complete += each.last - each.first + 1
            elif each.state > ACQUIRED:
                complete += each.last - each.first + 1
        self.complete_count -= complete
        for lock, records in held.items():
            self.locks.drop(lock, records)
        self.start_offset = offset
        self.end_offset = max(self.end_offset, offset - 1)
        self.move_start()

    def move_start(self) -> None:
        """Moves the start offset past records in a final state."""
        final = 0
        for each in self._ranges:
            if not is_final(each.state):
                break
            final += 1
            self.complete_count -= len(each)
            self.start_offset = each.last + 1
        if final:
            del self._ranges[:final]

    def _index(self, offset: int) -> int:
        """Returns the index of the range that contains an offset. The offset must be in flight."""
        ranges = self._ranges
        near = self._near  # Operations are in ascending order; a search takes longer.
        if near < len(ranges) and ranges[near].first <= offset:
            if offset <= ranges[near].last:
                return near
            near += 1
            if near < len(ranges) and offset <= ranges[near].last:
                self._near = near
                return near
        self._near = near = bisect_right(ranges, offset, key=_FIRST) - 1
        return near

    def _split(self, offset: int) -> int:
        """Returns the index of the range that begins at ``offset``. Splits a range if necessary."""
        ranges = self._ranges
        if offset > self.end_offset:
            return len(ranges)
        index = self._index(offset)
        found = ranges[index]
        if found.first == offset:
            return index
        after = Range(offset, found.last, found.state, found.count, found.lock, found.transition)
        found.last = offset - 1
        ranges.insert(index + 1, after)
        self._near = index + 1
        return index + 1

    def _join(self, index: int, end: int) -> None:
        """Joins adjacent ranges with equal values among the ranges with the indexes ``index`` to
        ``end`` - 1, the range before them, and the range after them."""
        ranges = self._ranges
        index = max(index - 1, 0)
        end = min(end + 1, len(ranges))
        if end - index <= 3:
            for after in range(index + 1, end):
                if ranges[after].continues(ranges[after - 1]):
                    break
            else:
                return
        joined: list[Range] = []
        for each in ranges[index:end]:
            if joined and each.continues(joined[-1]):
                joined[-1].last = each.last
            else:
                joined.append(each)
        if len(joined) < end - index:
            ranges[index:end] = joined
