"""Combines the stored batches of a share partition with the batches of a write.

An offset that several batches contain gets the highest delivery count, and for equal counts the
highest delivery state. So an outdated batch does not undo a later delivery. Adjacent batches with
the same state and count are joined, and offsets below the start offset are dropped. Source: Kafka
4.3.1 ``PersisterStateBatchCombiner``, which does not join all adjacent batches.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from operator import attrgetter, lt

from share.values import StateBatch

_FIRST = attrgetter("first_offset")
_LAST = attrgetter("last_offset")


def combine(
    batches: Sequence[StateBatch], added: Iterable[StateBatch], start_offset: int
) -> tuple[StateBatch, ...]:
    """Adds the batches ``added`` to ``batches``, and drops the offsets below ``start_offset``
    (unless it is -1). Returns the result, in ascending order and without overlaps.

    ``batches`` must also be in ascending order and without overlaps. The time to add a batch is
    proportional to the number of existing batches that it overlaps.
    """
    combined = list(batches)
    for batch in added:
        if not combined or batch.first_offset > combined[-1].last_offset:
            _append(combined, batch, batch.first_offset, batch.last_offset)
        else:
            _add(combined, batch)
    if start_offset >= 0:
        _drop_below(combined, start_offset)
    return tuple(combined)


def are_ascending(batches: Sequence[StateBatch]) -> bool:
    return all(map(lt, map(_LAST, batches), map(_FIRST, batches[1:])))


def has_empty(batches: Sequence[StateBatch]) -> bool:
    """Returns True if a batch has no offsets: its last offset is before its first."""
    return any(map(lt, map(_LAST, batches), map(_FIRST, batches)))


def _add(batches: list[StateBatch], added: StateBatch) -> None:
    """Adds a batch to batches that are in ascending order. Combines the added batch with batches
    that overlap it or are adjacent to it."""
    first, last = added.first_offset, added.last_offset
    if not batches or first > batches[-1].last_offset + 1:
        if first <= last:
            batches.append(added)
        return
    low = bisect_left(batches, first - 1, key=_LAST)
    high = bisect_right(batches, last + 1, lo=low, key=_FIRST)
    pieces: list[StateBatch] = []
    offset = first
    """The position up to which ``added`` is already in ``pieces``: the first offset of ``added``
    that is missing there."""
    for each in batches[low:high]:
        if each.first_offset < first:
            _append(pieces, each, each.first_offset, min(each.last_offset, first - 1))
        _append(pieces, added, offset, min(each.first_offset - 1, last))
        winner = added if _rank(added) > _rank(each) else each
        _append(pieces, winner, max(each.first_offset, first), min(each.last_offset, last))
        _append(pieces, each, max(each.first_offset, last + 1), each.last_offset)
        offset = max(offset, each.last_offset + 1)
    _append(pieces, added, offset, last)
    batches[low:high] = pieces


def _append(pieces: list[StateBatch], source: StateBatch, first: int, last: int) -> None:
    """Appends a batch with the offsets ``first`` to ``last`` and the values of ``source`` to
    ``pieces``, if ``first`` <= ``last``. If the last batch in ``pieces`` is adjacent and has equal
    values, extends that batch instead."""
    if first > last:
        return
    if pieces:
        before = pieces[-1]
        if before.last_offset + 1 == first and _rank(before) == _rank(source):
            pieces[-1] = StateBatch(before.first_offset, last, *before[2:])
            return
    pieces.append(StateBatch(first, last, *source[2:]))


def _rank(batch: StateBatch) -> tuple[int, int]:
    return batch.delivery_count, batch.delivery_state


def _drop_below(batches: list[StateBatch], start_offset: int) -> None:
    kept = bisect_left(batches, start_offset, key=_LAST)
    del batches[:kept]
    if batches and batches[0].first_offset < start_offset:
        batches[0] = batches[0]._replace(first_offset=start_offset)
