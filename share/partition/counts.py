"""Counts of deliveries and of their outcomes by group, for metrics; and the expired locks of each
member, for verdicts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

OUTCOMES: Final = (
    "accepted", "released", "rejected", "gap", "lock expired", "session closed"
)  # fmt: skip
"""The kinds of outcomes, as in `Outcome.kind`."""

GROUPS_MAX: Final = 10_000
"""The maximum number of groups with counts, which need about 10 MB; beyond it, the group that was
added first is forgotten, and its counts begin again."""
MEMBERS_MAX: Final = 64
"""The maximum number of members of a group whose expired locks are kept; beyond it, the member
whose last expired lock is the oldest is forgotten."""
ALL_MEMBERS_MAX: Final = 10_000
"""The same for the members of all groups together, which need about 20 MB."""
TIMES_KEPT: Final = 16
"""How many of the last expiries are kept for each member."""
TOGETHER_MS: Final = 1_000
"""Locks of one member that end within this time in ms count as one expiry: they are of one poll."""


class Expiry(NamedTuple):
    """Locks of one member that ended together, without an acknowledgement of their records."""

    at_ms: int
    """The wall time at which the first of the locks had ended."""
    records: int


class Room:
    """The number of members that may still be added, in all groups together."""

    __slots__ = ("left",)

    def __init__(self, left: int = ALL_MEMBERS_MAX) -> None:
        self.left = left


class Expiries:
    """The last expired locks of the members of one group, on all its share partitions."""

    __slots__ = ("_by_member", "_room")

    def __init__(self, room: Room) -> None:
        self._by_member: dict[str, tuple[Expiry, ...]] = {}
        self._room = room

    def __iter__(self) -> Iterator[tuple[str, tuple[Expiry, ...]]]:
        """Yields each member with its expiries, the oldest first."""
        return iter(list(self._by_member.items()))

    def note(self, member_id: str, records: int, now_ms: int) -> None:
        """Adds a lock that has ended. Without room, the expiry replaces those of another member of
        the group."""
        found = self._by_member.pop(member_id, None)
        if found is None:
            if self._room.left and len(self._by_member) < MEMBERS_MAX:
                self._room.left -= 1
            elif self._by_member:
                del self._by_member[next(iter(self._by_member))]
            else:
                return
            found = ()
        if found and abs(now_ms - found[-1].at_ms) < TOGETHER_MS:
            last = found[-1]
            found = (*found[:-1], last._replace(records=last.records + records))
        else:
            found = (*found[1 - TIMES_KEPT :], Expiry(now_ms, records))
        self._by_member[member_id] = found

    def forget(self, member_id: str) -> None:
        """Forgets a member that is not in the group any more."""
        if self._by_member.pop(member_id, None) is not None:
            self._room.left += 1

    def close(self) -> None:
        """Forgets all members, and keeps no further expiries."""
        self._room.left += len(self._by_member)
        self._by_member, self._room = {}, Room(0)


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
