"""Callbacks for the controller's changes of this broker's replicas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from broker.cluster.metadata_cache import Learnt
from broker.topics.replicas.replica import Replica


@dataclass(frozen=True, slots=True)
class ReplicaHooks:
    """Receives changes of replicas; exceptions of the callbacks are caught."""

    on_leader: Callable[[Replica, int], None]
    """This broker leads a partition, in that leader epoch; it may have led it before."""
    on_follower: Callable[[Replica, int], None]
    """It leads a partition no more, or never did, as of that leader epoch; -1 and -2: for good."""
    on_deleted: Callable[[str, int], None]
    """A partition is deleted in the whole cluster."""
    on_learnt: Callable[[Learnt], None]
    """The metadata cache has learnt something."""
