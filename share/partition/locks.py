"""Acquisition locks: until when a member may keep the records of one acquisition."""

from __future__ import annotations

from collections.abc import Collection

from protocol.deadlines import Deadlines, Timer

_VOID_LOCKS = 32
"""The maximum number of void timers in the heap of a share partition: timers whose lock has no
records left. Most locks lose their records long before their timers fire, and a broker has many
share partitions, so void timers must be removed."""


class Lock(Timer):
    """The acquisition lock of the records that a member acquired or renewed in one operation."""

    __slots__ = ("begins_ms", "ends_ms", "first_offset", "last_offset", "member_id", "records")

    def __init__(self, member_id: str, begins_ms: int, ends_ms: int) -> None:
        super().__init__()
        self.member_id = member_id
        self.begins_ms = begins_ms
        """The wall time in ms at which the member acquired or renewed the records."""
        self.ends_ms = ends_ms
        """The end of the lock in monotonic ms. It is kept after the timer has fired."""
        self.records = 0
        """The number of records that are under this lock."""
        self.first_offset = -1
        self.last_offset = -1
        """The offset of the last record under this lock, or a higher offset. Some records between
        ``first_offset`` and ``last_offset`` may not be under this lock."""


class Locks:
    """The acquisition locks of a share partition. A lock without records is removed."""

    __slots__ = ("_by_member", "_deadlines")

    def __init__(self) -> None:
        self._by_member: dict[str, set[Lock]] = {}
        self._deadlines: Deadlines[Lock] = Deadlines(_VOID_LOCKS)

    def hold(self, lock: Lock, first_offset: int, last_offset: int) -> None:
        """Adds records to a lock. Calls for the same lock must have ascending offsets."""
        if not lock.records:
            lock.first_offset = first_offset
            self._by_member.setdefault(lock.member_id, set()).add(lock)
            self._deadlines.arm(lock, lock.ends_ms)
        lock.last_offset = last_offset
        lock.records += last_offset - first_offset + 1

    def drop(self, lock: Lock, records: int) -> None:
        """Subtracts ``records`` from the number of records of a lock. Removes the lock if no
        records are left."""
        lock.records -= records
        if lock.records:
            return
        lock.disarm()
        locks = self._by_member[lock.member_id]
        locks.remove(lock)
        if not locks:
            del self._by_member[lock.member_id]

    def of_member(self, member_id: str) -> Collection[Lock]:
        return self._by_member.get(member_id, ())

    @property
    def are_held(self) -> bool:
        """Returns True if any record is under a lock."""
        return bool(self._by_member)

    def next_deadline(self) -> int | None:
        """Returns a lower bound of the ends of all locks; None without locks."""
        return self._deadlines.next_ms

    def pop_ended(self, now_ms: int) -> set[Lock]:
        """Returns the locks that have ended since the previous call."""
        deadlines = self._deadlines
        ended = set()
        while deadlines.next_ms is not None and deadlines.next_ms <= now_ms:
            if (lock := deadlines.pop(now_ms)) is not None:
                ended.add(lock)
        return ended
