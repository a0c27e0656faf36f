"""Keeps the outcomes of past deliveries, to explain repeated deliveries and archived records."""

from __future__ import annotations

from collections import deque

from share.partition.values import Outcome

_KEPT = 128
"""The maximum number of kept outcomes of archived records in a share partition. It is also the
maximum number of kept outcomes of records that are delivered again."""


class History:
    """The latest outcomes of deliveries in a share partition. One list has the outcomes after which
    records were archived, the other list the outcomes after which records can be delivered again.

    Consecutive records with the same outcome share one entry.
    """

    __slots__ = ("_archived", "_delivered_again")

    def __init__(self) -> None:
        self._archived: deque[Outcome] = deque(maxlen=_KEPT)
        self._delivered_again: deque[Outcome] = deque(maxlen=_KEPT)

    def note(self, outcome: Outcome) -> None:
        outcomes = self._archived if outcome.archived else self._delivered_again
        if outcomes:
            before = outcomes[-1]
            if before.last_offset + 1 == outcome.first_offset and before[2:] == outcome[2:]:
                outcomes[-1] = before._replace(last_offset=outcome.last_offset)
                return
        outcomes.append(outcome)

    def of(self, first_offset: int, last_offset: int) -> list[Outcome]:
        """Returns the kept outcomes of the records from ``first_offset`` to ``last_offset``. The
        outcomes of each record are in the order of its deliveries, even if the wall clock was set
        back."""
        found = [
            each
            for outcomes in (self._delivered_again, self._archived)
            for each in outcomes
            if each.first_offset <= last_offset and each.last_offset >= first_offset
        ]
        found.sort(key=_order)
        return found


def _order(outcome: Outcome) -> tuple[int, int]:
    return outcome.delivery_count, outcome.ended_ms
