"""Functions that are called when the controller changes this broker's replicas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from broker.cluster.metadata_cache import Learnt
from broker.topics.replicas.replica import Replica


@dataclass(frozen=True, slots=True)
class ReplicaHooks:
    """Callbacks for changes of replicas. The code that calls them catches their exceptions."""

    on_leader: Callable[[Replica, int], None]
    """Called with the leader epoch when this broker becomes the leader of a partition, or stays the
    leader in a new epoch."""
    on_follower: Callable[[Replica, int], None]
    """Called with the leader epoch in two cases: this broker begins to follow another leader, or it
    stops the replica. If it stops the replica, the epoch may be -1 or -2, which mean any epoch."""
    on_deleted: Callable[[str, int], None]
    """Called when a partition is deleted in the whole cluster."""
    on_learnt: Callable[[Learnt], None]
    """Called after a change of the metadata cache."""
