"""The caught-up followers of a led partition, which skip it until it changes.

| event | followers that are notified | followers that stay listed |
|---|---|---|
| an append | all, and their waiting requests read at once | none: they are answered |
| another state | all, and their waiting requests read at once | all |
| a new high watermark, deleted records | all, for their next read | all |

A waiting request was made while the partition was idle, and does not wait for it. So a follower
stays listed until it is answered: the next append must reach it, whatever happened before. The
leader treats such a follower as if each of its requests named the partition.
"""

from __future__ import annotations

from typing import Any, Protocol

from replication.leader import LedReplicas


class Follows(Protocol):
    """The fetches of another replica, of which this is one partition: a session."""

    used_ms: int
    """When the last request arrived (monotonic)."""

    def stirred(self, wanted: Any, *, wake: bool) -> None:
        """Something has changed since this partition was quiet; ``wanted`` is as it was given."""


class IdleFollowers:
    """The idle followers of one partition, by replica; one of each."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[int, tuple[Follows, Any]] = {}

    def __contains__(self, replica_id: int) -> bool:
        return replica_id in self._known

    def add(self, led: LedReplicas, replica_id: int, session: Follows, wanted: Any) -> bool:
        """Whether a follower that has all needs to look again only when it is stirred.

        One that is not in sync, or soon may not be, looks each time: it is to be asked in.
        """
        if led.pending is not None or replica_id not in led.state.isr:
            return False
        self._known[replica_id] = session, wanted
        return True

    def appended(self, led: LedReplicas) -> None:
        """There are records for them, of which ``led`` has not heard yet."""
        if self._known:
            for replica_id, (session, _) in self._known.items():
                led.had_all(replica_id, session.used_ms)
            self.stir(wake=True)
            self._known.clear()

    def stir(self, *, wake: bool) -> None:
        """They are to look again: now, to ``wake`` what waits, or by their next fetch."""
        for session, wanted in self._known.values():
            session.stirred(wanted, wake=wake)
