"""A change of a partition's state: the state to write, its cause, and what follows the write."""

from __future__ import annotations

from dataclasses import dataclass

from controller.events import Cause
from controller.pending_requests import PendingRequest
from controller.values import LeaderAndIsr, Replicas


@dataclass(slots=True, frozen=True)
class Change:
    """See the module."""

    state: LeaderAndIsr
    """``partition_epoch`` is the version that the node has to have."""
    cause: Cause
    lost: Replicas = ()
    """The lost sessions of which it takes account."""
    pending: PendingRequest | None = None
    """The request that is granted by it."""
    finishes: bool = False
    """It is the last of a reassignment."""
