"""Counts of deliveries and of their outcomes by group, for metrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from share.partition.expiries import Expiries, Room

OUTCOMES: Final = (
    "accepted", "released", "rejected", "gap", "lock expired", "session closed"
)  # fmt: skip
"""The kinds of outcomes, as in `Outcome.kind`."""

GROUPS_MAX: Final = 10_000
"""The maximum number of groups with counts, which need about 10 MB; beyond it, the group that was
added first is forgotten, and its counts begin again."""


class DeliveryCounts:
    """The numbers of records delivered to the members of a group, since the broker started."""

    __slots__ = ("archived", "delivered", "delivered_again", "expiries", "outcomes")

    def __init__(self, room: Room | None = None) -> None:
        """``room`` bounds the expired locks of all groups together."""
        self.delivered = 0
        """Deliveries, repeated ones included."""
        self.delivered_again = 0
        """Repeated deliveries."""
        self.outcomes = dict.fromkeys(OUTCOMES, 0)
        """Stored ends of deliveries by kind."""
        self.archived = 0
        """Records archived after too many deliveries."""
        self.expiries = Expiries(room or Room())
        """The last expired locks of each member."""

    def acquired(self, records: int, delivery_count: int) -> None:
        """Counts records that a member has acquired."""
        self.delivered += records
        if delivery_count > 1:
            self.delivered_again += records

    def ended(self, records: int, kind: str, is_archived: bool) -> None:
        """Counts deliveries that have ended."""
        self.outcomes[kind] += records
        if is_archived and kind not in ("rejected", "gap"):
            self.archived += records


class GroupCounts:
    """The counts of each group that has share partitions on this broker. They outlive the share
    partitions, which are dropped while unused."""

    def __init__(self) -> None:
        self._by_group: dict[str, DeliveryCounts] = {}
        self._room = Room()

    def __iter__(self) -> Iterator[tuple[str, DeliveryCounts]]:
        return iter(list(self._by_group.items()))

    def of(self, group_id: str) -> DeliveryCounts:
        """Returns the counts of a group, which begin at 0."""
        found = self._by_group.get(group_id)
        if found is None:
            if len(self._by_group) >= GROUPS_MAX:
                self.forget(next(iter(self._by_group)))
            found = self._by_group[group_id] = DeliveryCounts(self._room)
        return found

    def forget(self, group_id: str) -> None:
        """Forgets a deleted group."""
        found = self._by_group.pop(group_id, None)
        if found is not None:
            found.expiries.close()

    def member_removed(self, group_id: str, member_id: str) -> None:
        """Forgets the expired locks of a member that is not in its group any more."""
        found = self._by_group.get(group_id)
        if found is not None:
            found.expiries.forget(member_id)
