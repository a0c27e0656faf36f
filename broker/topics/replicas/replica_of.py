"""Casts a `Partition` to a `Replica`, for code that a standalone broker imports too. The import of
this module does not import the code for clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from broker.topics.partition import Partition

if TYPE_CHECKING:
    from broker.topics.replicas.replica import Replica


def replica_of(partition: Partition | None) -> Replica | None:
    """Returns the partition as a `Replica`; None if the broker is standalone or ``partition`` is
    None."""
    return cast("Replica", partition) if partition is not None and partition.is_replica else None
