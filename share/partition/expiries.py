"""The expired acquisition locks of each member of a group, for verdicts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

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
    """The time on the monotonic clock at which the first of the locks had ended."""
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
        if found and now_ms - found[-1].at_ms < TOGETHER_MS:
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
