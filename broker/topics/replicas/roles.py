"""This broker's roles for a partition in a cluster, and the errors for a wrong role."""

from __future__ import annotations

from enum import Enum

from log.errors import AppendRefused
from protocol.errors import NOT_ENOUGH_REPLICAS, NOT_LEADER_OR_FOLLOWER


class Role(Enum):
    """This broker's role for a partition."""

    UNASSIGNED = "unassigned"
    LEADER = "leader"
    FOLLOWER = "follower"
    OFFLINE = "offline"


class NotLeader(AppendRefused):
    """This broker does not lead the partition, or no longer leads it."""

    def __init__(self, message: str) -> None:
        super().__init__(NOT_LEADER_OR_FOLLOWER, message)


class NotEnoughReplicas(AppendRefused):
    """Fewer replicas are in sync than `min.insync.replicas` requires."""

    def __init__(self, message: str) -> None:
        super().__init__(NOT_ENOUGH_REPLICAS, message)


class NotFollower(Exception):
    """This broker is not a follower of the partition."""
