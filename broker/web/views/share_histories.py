"""The delivery history of a share partition: the deliveries of its records, and how each of them
ended."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

from coordinator.share.archived import Archived
from share.partition.values import InFlightRange, Outcome

_FIRST = attrgetter("first_offset")


class Piece(NamedTuple):
    """Consecutive records with the same delivery history and the same state."""

    first_offset: int
    last_offset: int
    latest: Outcome
    now: InFlightRange | None
    """The in-flight range that contains the records; None if the records are not in flight."""

    @property
    def deliveries(self) -> int:
        return max(self.latest.delivery_count, 0 if self.now is None else self.now.delivery_count)


def latest_outcomes(outcomes: list[Outcome]) -> list[tuple[int, int, Outcome]]:
    """Returns the latest outcome of each record, as non-overlapping ranges: first offset, last
    offset and outcome."""
    starts = sorted(outcomes, key=_FIRST, reverse=True)
    bounds = sorted(
        {each.first_offset for each in outcomes} | {each.last_offset + 1 for each in outcomes}
    )
    open_: list[tuple[int, int, Outcome]] = []
    found: list[tuple[int, int, Outcome]] = []
    for begin, end in pairwise(bounds):
        while starts and starts[-1].first_offset <= begin:
            each = starts.pop()
            heappush(open_, (-each.delivery_count, -each.ended_ms, each))
        while open_ and open_[0][2].last_offset < begin:
            heappop(open_)
        if open_:
            found.append((begin, end - 1, open_[0][2]))
    return found


def pieces_of(
    spans: list[tuple[int, int, Outcome]], ranges: list[InFlightRange], first: int, last: int
) -> list[Piece]:
    """Splits the records in ``spans`` into pieces. All records of a piece have the same outcome and
    the same in-flight state. Pieces with more deliveries come first. If two pieces have equally
    many deliveries, archived records come first."""
    pieces: list[Piece] = []
    for begin, end, outcome in spans:
        offset, until = max(begin, first), min(end, last)
        while offset <= until:
            index = bisect_right(ranges, offset, key=_FIRST) - 1
            inside = ranges[index] if index >= 0 and ranges[index].last_offset >= offset else None
            if inside is not None:
                stop = min(inside.last_offset, until)
            else:
                later = ranges[index + 1].first_offset - 1 if index + 1 < len(ranges) else until
                stop = min(later, until)
            pieces.append(Piece(offset, stop, outcome, inside))
            offset = stop + 1
    pieces.sort(key=lambda each: (-each.deliveries, not each.latest.archived, each.first_offset))
    return pieces


def journaled(
    archived: Sequence[Archived], state_epoch: int, seen: Sequence[Outcome]
) -> list[Outcome]:
    """Returns the outcomes of archived records that the journal has and that are not among
    ``seen``, the outcomes in memory. Journal entries of another state epoch are ignored, because
    their records may have been delivered again since then."""
    known = sorted([each for each in seen if each.archived], key=_FIRST)
    return [
        Outcome(
            first,
            last,
            each.deliveries,
            each.member_id,
            each.began_ms,
            each.at_ms,
            each.outcome,
            archived=True,
        )
        for each in archived
        if each.state_epoch == state_epoch
        for first, last in _unknown(each, known)
    ]


def _unknown(entry: Archived, known: Sequence[Outcome]) -> Iterator[tuple[int, int]]:
    """Yields the offset ranges of a journal entry that the outcomes ``known`` do not cover.
    ``known`` is in ascending order. One entry may correspond to several outcomes."""
    first = entry.first_offset
    for each in known:
        if each.first_offset > entry.last_offset:
            break
        if each.delivery_count == entry.deliveries and each.last_offset >= first:
            if each.first_offset > first:
                yield first, each.first_offset - 1
            first = each.last_offset + 1
    if first <= entry.last_offset:
        yield first, entry.last_offset
