"""Collects the transitions of records in one operation into one change."""

from __future__ import annotations

from share.partition.ranges import Range, Ranges, Transition
from share.partition.values import Change
from share.values import DeliveryState, StateBatch


class Transitions:
    """The transitions that one operation has begun."""

    __slots__ = ("_batches", "_ranges", "_transitions")

    def __init__(self, ranges: Ranges) -> None:
        self._ranges = ranges
        self._batches: list[StateBatch] = []
        self._transitions: dict[tuple[DeliveryState, str], Transition] = {}

    def begin(self, range_: Range, state: DeliveryState, kind: str) -> None:
        """Begins the transition of a range. The range must be after the ranges of earlier calls."""
        transition = self._transitions.get((state, kind))
        if transition is None:
            transition = self._transitions[state, kind] = Transition(state, kind)
        self._ranges.begin(range_, transition)
        first, last, count = range_.first, range_.last, range_.count
        batches = self._batches
        if batches:
            begin, end, before, count_before = batches[-1]
            if end + 1 == first and before == state and count_before == count:
                batches[-1] = StateBatch(begin, last, state, count)
                return
        batches.append(StateBatch(first, last, state, count))

    def change(self) -> Change | None:
        """Returns one change for all transitions that began; None if no transition began."""
        if not self._batches:
            return None
        ranges = self._ranges
        change = Change(ranges.start_offset, ranges.complete_count, tuple(self._batches))
        for transition in self._transitions.values():
            transition.change = change
        return change
