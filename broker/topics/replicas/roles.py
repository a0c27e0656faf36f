"""The roles that this broker can have for a partition in a cluster, and the errors for a wrong
role."""

from __future__ import annotations

from enum import Enum

from log.errors import AppendRefused
from protocol.errors import NOT_ENOUGH_REPLICAS, NOT_LEADER_OR_FOLLOWER


class Role(Enum):
    """The role of this broker for a partition."""

    UNASSIGNED = "unassigned"
    LEADER = "leader"
    FOLLOWER = "follower"
    OFFLINE = "offline"


class NotLeader(AppendRefused):
    """Raised if this broker is not, or is no longer, the leader of the partition."""

    def __init__(self, message: str) -> None:
        super().__init__(NOT_LEADER_OR_FOLLOWER, message)


class NotEnoughReplicas(AppendRefused):
    """Raised if fewer replicas are in sync than `min.insync.replicas` requires."""

    def __init__(self, message: str) -> None:
        super().__init__(NOT_ENOUGH_REPLICAS, message)


class NotFollower(Exception):
    """Raised if this broker is not a follower of the partition."""
