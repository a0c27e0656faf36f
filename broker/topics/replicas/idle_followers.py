"""The followers of a led partition that have all of it, and do not look at it until it is stirred.

| what happens | who is told | who stays known |
|---|---|---|
| an append | all, and their requests that wait look at once | nobody: they are answered |
| another state | all, and their requests that wait look at once | all |
| a new high watermark, deleted records | all, for their next look | all |

A request that waits was made while the partition was quiet, and does not wait for it. So a follower
stays known until it is answered: the next append must reach it, whatever came before. To the leader
such a follower is where it would be if each of its requests named the partition.
"""

from __future__ import annotations

from typing import Any, Protocol

from replication.leader import LedReplicas


class Follows(Protocol):
    """The fetches of another replica, of which this is one partition: a session."""

    used_ms: int
    """When the last request came (monotonic)."""

    def stirred(self, wanted: Any, *, wake: bool) -> None:
        """Something has changed since this partition was quiet; ``wanted`` is as it was given."""


class IdleFollowers:
    """Those of one partition, by replica; one of each."""

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
