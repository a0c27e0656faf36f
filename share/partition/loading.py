"""Loads the stored state of a share partition in pieces."""

from __future__ import annotations

from collections.abc import Generator

from share.partition.acknowledgement import PIECE
from share.partition.ranges import ARCHIVED, AVAILABLE, Ranges
from share.values import DeliveryState, StoredState

_LOADED: dict[int, DeliveryState] = {
    DeliveryState.AVAILABLE: DeliveryState.AVAILABLE,
    DeliveryState.ACQUIRED: DeliveryState.AVAILABLE,
    DeliveryState.ACKNOWLEDGED: DeliveryState.ACKNOWLEDGED,
}
"""The states of loaded records, by stored number. All other numbers become ARCHIVED: a later Kafka
stores 3 for records that it copies to a dead letter queue and does not deliver again."""


def loading(state: StoredState) -> Generator[None, None, Ranges]:
    """Makes the ranges of a stored state. Yields after every `PIECE` stored batches. The return
    value of the generator is the ranges.

    Offsets between the stored batches are available, because they were not acknowledged before the
    state was read.
    """
    ranges = Ranges(state.start_offset)
    for number, (first, last, stored, count) in enumerate(state.batches, 1):
        begin = ranges.end_offset + 1
        if first > begin:
            ranges.put(begin, first - 1, AVAILABLE, 0)
            begin = first
        if last >= begin:
            ranges.put(begin, last, _LOADED.get(stored, ARCHIVED), count)
        if number % PIECE == 0:
            yield
    ranges.move_start()
    return ranges


def loaded(state: StoredState) -> Ranges:
    steps = loading(state)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            ranges: Ranges = end.value
            return ranges
