"""The caught-up followers of a partition, if their fetch sessions skip the unchanged partition.

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
    """A follower's fetch session that skips an unchanged partition; see `IdleFollowers`."""

    used_ms: int
    """The monotonic time in ms at which the session's last request arrived."""

    def stirred(self, wanted: Any, *, wake: bool) -> None:
        """Called when an idle partition changes. ``wanted`` is the object that was passed to
        `IdleFollowers.add`."""


class IdleFollowers:
    """The idle followers of one partition, by replica id. An idle follower is caught up, and its
    fetch session skips the partition."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[int, tuple[Follows, Any]] = {}

    def __contains__(self, replica_id: int) -> bool:
        return replica_id in self._known

    def add(self, led: LedReplicas, replica_id: int, session: Follows, wanted: Any) -> bool:
        """Adds a caught-up follower, whose requests then skip the partition until `stir` is called.

        Returns False without adding if the follower must read each time: it is not in sync and may
        join the ISR, or an ISR change is pending.
        """
        if led.pending is not None or replica_id not in led.state.isr:
            return False
        self._known[replica_id] = session, wanted
        return True

    def appended(self, led: LedReplicas) -> None:
        """Notifies and removes all followers after an append. Must be called before ``led`` has the
        new offset."""
        if self._known:
            for replica_id, (session, _) in self._known.items():
                led.had_all(replica_id, session.used_ms)
            self.stir(wake=True)
            self._known.clear()

    def stir(self, *, wake: bool) -> None:
        """Notifies all followers of a change of the partition. If ``wake`` is True, the waiting
        requests of the followers read the partition."""
        for session, wanted in self._known.values():
            session.stirred(wanted, wake=wake)
