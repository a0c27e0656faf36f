"""Asks a partition for its replica, without what only a broker in a cluster imports."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from broker.topics.partition import Partition

if TYPE_CHECKING:
    from broker.topics.replicas.replica import Replica


def replica_of(partition: Partition | None) -> Replica | None:
    """The partition itself, as one of several replicas; None where this broker is alone."""
    return cast("Replica", partition) if partition is not None and partition.is_replica else None
