"""The followers of a partition whose fetch sessions skip it, because they are caught up and the
partition does not change. They are *listed* here until they must read the partition again.

| event | notified followers | followers that stay listed |
|---|---|---|
| an append | all, and their waiting requests read at once | none: their requests are answered |
| another state | all, and their waiting requests read at once | all |
| a new high watermark, deleted records | all, for their next read | all |

A follower's request that began to wait while the partition was idle is not registered for appends
to the partition. The follower therefore stays listed until this request is answered, so that the
next append wakes the request. The leader treats a listed follower as if each of its requests named
the partition.
"""

from __future__ import annotations

from typing import Any, Protocol

from replication.leader import LedReplicas


class Follows(Protocol):
    """The fetch session of a follower, as `IdleFollowers` sees it. While a partition is idle, the
    requests of the session skip it. When an idle partition changes, `IdleFollowers` calls the
    session's method `stirred`."""

    used_ms: int
    """The monotonic time in ms at which the session's last request arrived."""

    def stirred(self, wanted: Any, *, wake: bool) -> None:
        """Called when a partition that was idle has changed. ``wanted`` is the object that was
        passed to `IdleFollowers.add`."""


class IdleFollowers:
    """The idle followers of one partition, by replica id. An idle follower is caught up, and its
    fetch session skips the partition."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[int, tuple[Follows, Any]] = {}

    def __contains__(self, replica_id: int) -> bool:
        return replica_id in self._known

    def add(self, led: LedReplicas, replica_id: int, session: Follows, wanted: Any) -> bool:
        """Adds a caught-up follower. Its requests then skip the partition until the next call of
        `stir`.

        Returns False, without adding the follower, if the leader must check the partition at each
        request: the follower is not in the ISR and may join it, or a change of the ISR is pending.
        """
        if led.pending is not None or replica_id not in led.state.isr:
            return False
        self._known[replica_id] = session, wanted
        return True

    def appended(self, led: LedReplicas) -> None:
        """Called after an append to the log. The idle followers had all records before the append,
        and now lack records. Notes for each of them that it was caught up, makes its parked Fetch
        read again, and empties the list.

        The caller must call this before ``led`` has the new log end offset.
        """
        if self._known:
            for replica_id, (session, _) in self._known.items():
                led.had_all(replica_id, session.used_ms)
            self.stir(wake=True)
            self._known.clear()

    def stir(self, *, wake: bool) -> None:
        """Notifies the fetch sessions of all idle followers that the partition has changed. If
        ``wake`` is True, the waiting requests of these followers read the partition."""
        for session, wanted in self._known.values():
            session.stirred(wanted, wake=wake)
