"""Acquisition locks: how long a member holds the records of one acquisition."""

from __future__ import annotations

from collections.abc import Collection

from protocol.deadlines import Deadlines, Timer

_VOID_LOCKS = 32
"""How many locks that hold no more records a share partition may keep in memory. Most locks are
dropped long before they end, and a broker has many share partitions."""


class Lock(Timer):
    """The acquisition lock of the records that a member acquired or renewed in one operation."""

    __slots__ = ("begins_ms", "ends_ms", "first_offset", "last_offset", "member_id", "records")

    def __init__(self, member_id: str, begins_ms: int, ends_ms: int) -> None:
        super().__init__()
        self.member_id = member_id
        self.begins_ms = begins_ms
        """The wall time at which the member acquired or renewed the records."""
        self.ends_ms = ends_ms
        """The end of the lock on the monotonic clock; it stays after the timer was popped."""
        self.records = 0
        """How many records the lock holds."""
        self.first_offset = -1
        self.last_offset = -1
        """All records of the lock are between these offsets, among records of other locks."""


class Locks:
    """The locks of a share partition that hold records."""

    __slots__ = ("_by_member", "_deadlines")

    def __init__(self) -> None:
        self._by_member: dict[str, set[Lock]] = {}
        self._deadlines: Deadlines[Lock] = Deadlines(_VOID_LOCKS)

    def hold(self, lock: Lock, first_offset: int, last_offset: int) -> None:
        """Adds records to a lock. Within a lock, the calls are in ascending order of offsets."""
        if not lock.records:
            lock.first_offset = first_offset
            self._by_member.setdefault(lock.member_id, set()).add(lock)
            self._deadlines.arm(lock, lock.ends_ms)
        lock.last_offset = last_offset
        lock.records += last_offset - first_offset + 1

    def drop(self, lock: Lock, records: int) -> None:
        """Takes records from a lock, and removes a lock that holds no more."""
        lock.records -= records
        if lock.records:
            return
        lock.disarm()
        locks = self._by_member[lock.member_id]
        locks.remove(lock)
        if not locks:
            del self._by_member[lock.member_id]

    def of_member(self, member_id: str) -> Collection[Lock]:
        """Returns the locks of a member."""
        return self._by_member.get(member_id, ())

    @property
    def are_held(self) -> bool:
        """Returns whether a member holds records."""
        return bool(self._by_member)

    def next_deadline(self) -> int | None:
        """Returns a lower bound of the ends of all locks, or None."""
        return self._deadlines.next_ms

    def pop_ended(self, now_ms: int) -> set[Lock]:
        """Returns the locks that have ended since the call before."""
        deadlines = self._deadlines
        ended = set()
        while deadlines.next_ms is not None and deadlines.next_ms <= now_ms:
            if (lock := deadlines.pop(now_ms)) is not None:
                ended.add(lock)
        return ended
