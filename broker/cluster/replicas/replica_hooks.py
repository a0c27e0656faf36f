"""Callbacks for changes that the controller makes to this broker's replicas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from broker.cluster.metadata_cache import Learnt
from broker.topics.replicas.replica import Replica


@dataclass(frozen=True, slots=True)
class ReplicaHooks:
    """Receives changes of replicas; exceptions of the callbacks are caught."""

    on_leader: Callable[[Replica, int], None]
    """Called when this broker becomes or stays the leader of a partition in a leader epoch."""
    on_follower: Callable[[Replica, int], None]
    """Called with the leader epoch when this broker follows or stops a replica; epochs -1 and -2
    match every epoch."""
    on_deleted: Callable[[str, int], None]
    """Called when a partition is deleted in the whole cluster."""
    on_learnt: Callable[[Learnt], None]
    """Called after a change of the metadata cache."""
