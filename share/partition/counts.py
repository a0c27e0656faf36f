"""Counts deliveries and their outcomes for each group, for metrics. Also keeps the expired
acquisition locks of each member, for verdicts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

OUTCOMES: Final = (
    "accepted", "released", "rejected", "gap", "lock expired", "session closed"
)  # fmt: skip
"""How a delivery can end; the values of `Outcome.kind`."""

GROUPS_MAX: Final = 10_000
"""The maximum number of groups whose counts are kept. The counts need about 10 MB. Beyond this
number, the counts of the group that was added first are dropped and begin again at 0."""
MEMBERS_MAX: Final = 64
"""The maximum number of members of one group whose expired locks are stored. To store a further
member, the broker drops the member whose locks expired the longest time ago."""
ALL_MEMBERS_MAX: Final = 10_000
"""The maximum number of members for which expired locks are kept in memory, over all groups. The
expired locks of this many members need about 20 MB."""
TIMES_KEPT: Final = 16
"""The maximum number of expiries of acquisition locks that are kept for each member."""
TOGETHER_MS: Final = 1_000
"""Locks of one member that expire within this time in ms count as one expiry, because they belong
to one poll."""


class Expiry(NamedTuple):
    """Acquisition locks of one member that expired together, without an acknowledgement of their
    records."""

    at_ms: int
    """The wall time in ms at which the broker noticed the first of these expired locks."""
    records: int


class Room:
    """A limit on the number of members whose expired acquisition locks the broker remembers. It
    applies to all groups together. ``left`` is the number of members that may still be added."""

    __slots__ = ("left",)

    def __init__(self, left: int = ALL_MEMBERS_MAX) -> None:
        self.left = left


class Expiries:
    """The acquisition locks that expired last, by member of one group. The locks can be in any
    share partition of the group."""

    __slots__ = ("_by_member", "_room")

    def __init__(self, room: Room) -> None:
        self._by_member: dict[str, tuple[Expiry, ...]] = {}
        self._room = room

    def __iter__(self) -> Iterator[tuple[str, tuple[Expiry, ...]]]:
        """Yields each member with its expiries. Members are ordered by the time of their last
        expiry, the earliest first."""
        return iter(list(self._by_member.items()))

    def note(self, member_id: str, records: int, now_ms: int) -> None:
        """Adds an expired lock of a member. If the maximum number of members is stored, a new
        member replaces the member whose last lock expired the longest time ago."""
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
        """Removes a member that is no longer in the group."""
        if self._by_member.pop(member_id, None) is not None:
            self._room.left += 1

    def close(self) -> None:
        """Removes all members. Later expiries are ignored."""
        self._room.left += len(self._by_member)
        self._by_member, self._room = {}, Room(0)


class DeliveryCounts:
    """Counts the records that were delivered to the members of a group since the broker started."""

    __slots__ = ("archived", "delivered", "delivered_again", "expiries", "outcomes")

    def __init__(self, room: Room | None = None) -> None:
        """``room`` is shared by all groups. It limits the number of members whose expired
        acquisition locks are remembered."""
        self.delivered = 0
        """The number of delivered records, including repeated deliveries."""
        self.delivered_again = 0
        """The number of records that were delivered again."""
        self.outcomes = dict.fromkeys(OUTCOMES, 0)
        """The number of records whose delivery ended, for each of `OUTCOMES`. The records are
        counted when the outcome is stored."""
        self.archived = 0
        """The number of records that were archived after too many deliveries."""
        self.expiries = Expiries(room or Room())

    def acquired(self, records: int, delivery_count: int) -> None:
        self.delivered += records
        if delivery_count > 1:
            self.delivered_again += records

    def ended(self, records: int, kind: str, is_archived: bool) -> None:
        """Counts records whose delivery has ended with the outcome ``kind``."""
        self.outcomes[kind] += records
        if is_archived and kind not in ("rejected", "gap"):
            self.archived += records


class GroupCounts:
    """The counts of each group that has share partitions on this broker. The counts remain when a
    share partition is removed from memory because it is unused."""

    def __init__(self) -> None:
        self._by_group: dict[str, DeliveryCounts] = {}
        self._room = Room()

    def __iter__(self) -> Iterator[tuple[str, DeliveryCounts]]:
        return iter(list(self._by_group.items()))

    def of(self, group_id: str) -> DeliveryCounts:
        """Returns the counts of a group. For a new group they begin at 0."""
        found = self._by_group.get(group_id)
        if found is None:
            if len(self._by_group) >= GROUPS_MAX:
                self.forget(next(iter(self._by_group)))
            found = self._by_group[group_id] = DeliveryCounts(self._room)
        return found

    def forget(self, group_id: str) -> None:
        found = self._by_group.pop(group_id, None)
        if found is not None:
            found.expiries.close()

    def member_removed(self, group_id: str, member_id: str) -> None:
        """Drops the stored lock expiries of a member that is no longer in its group."""
        found = self._by_group.get(group_id)
        if found is not None:
            found.expiries.forget(member_id)
