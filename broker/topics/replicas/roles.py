"""The roles of a broker in a partition of a cluster, and what is refused for them."""

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
    """This broker does not lead the partition, or leads it no more."""

    def __init__(self, message: str) -> None:
        super().__init__(NOT_LEADER_OR_FOLLOWER, message)


class NotEnoughReplicas(AppendRefused):
    """Fewer replicas are in sync than `min.insync.replicas` asks for."""

    def __init__(self, message: str) -> None:
        super().__init__(NOT_ENOUGH_REPLICAS, message)


class NotFollower(Exception):
    """This broker does not follow the leader that a fetcher fetched from."""
