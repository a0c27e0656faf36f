"""A change of a partition's state: the state to write, its cause, and the request that it
completes."""

from __future__ import annotations

from dataclasses import dataclass

from controller.events import Cause
from controller.pending_requests import PendingRequest
from controller.values import LeaderAndIsr, Replicas


@dataclass(slots=True, frozen=True)
class Change:
    """A change of a partition's state."""

    state: LeaderAndIsr
    """The state to write; its ``partition_epoch`` is the expected version of the node."""
    cause: Cause
    lost: Replicas = ()
    """The brokers in ``Partition.lost`` that the change already considers."""
    pending: PendingRequest | None = None
    """The request that the change grants; None if the change was not requested."""
    finishes: bool = False
    """True if the change completes a reassignment, so that the target becomes the replicas."""
