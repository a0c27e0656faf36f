"""The expired acquisition locks of each member of a group, for verdicts."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

MEMBERS_MAX: Final = 64
"""The maximum number of members of a group whose expired locks are kept; beyond it, the member
whose last expired lock is the oldest is forgotten."""
TIMES_KEPT: Final = 16
"""How many of the last expiries are kept for each member."""
TOGETHER_MS: Final = 1_000
"""Locks of one member that end within this time in ms count as one expiry: they are of one poll."""


class Expiry(NamedTuple):
    """Locks of one member that ended together, without an acknowledgement of their records."""

    at_ms: int
    """The time on the monotonic clock at which the first of the locks had ended."""
    records: int


class Expiries:
    """The last expired locks of the members of one group, on all its share partitions."""

    __slots__ = ("_by_member",)

    def __init__(self) -> None:
        self._by_member: dict[str, deque[Expiry]] = {}

    def __iter__(self) -> Iterator[tuple[str, tuple[Expiry, ...]]]:
        """Yields each member with its expiries, the oldest first."""
        return iter([(member, tuple(found)) for member, found in self._by_member.items()])

    def note(self, member_id: str, records: int, now_ms: int) -> None:
        """Adds a lock that has ended."""
        found = self._by_member.pop(member_id, None)
        if found is None:
            found = deque(maxlen=TIMES_KEPT)
            if len(self._by_member) >= MEMBERS_MAX:
                del self._by_member[next(iter(self._by_member))]
        self._by_member[member_id] = found
        if found and now_ms - found[-1].at_ms < TOGETHER_MS:
            found[-1] = found[-1]._replace(records=found[-1].records + records)
        else:
            found.append(Expiry(now_ms, records))
