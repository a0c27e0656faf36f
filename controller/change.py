"""A change of a partition's state: the state to write, its cause, and the request (such as a
reassignment) that asked for the change."""

from __future__ import annotations

from dataclasses import dataclass

from controller.events import Cause
from controller.pending_requests import PendingRequest
from controller.values import LeaderAndIsr, Replicas


@dataclass(slots=True, frozen=True)
class Change:
    """A change of a partition's state."""

    state: LeaderAndIsr
    """The state to write. Its ``partition_epoch`` is the version that the node must have."""
    cause: Cause
    lost: Replicas = ()
    """The brokers in ``Partition.lost`` when the change was computed. The change already takes the
    loss of these brokers into account."""
    pending: PendingRequest | None = None
    """The request that the change grants; None if no request caused the change."""
    finishes: bool = False
    """True if the change completes a reassignment: the target replicas become the replicas."""
