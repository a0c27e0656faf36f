"""What a partition refuses for the role that this broker has in it, in a cluster."""

from __future__ import annotations

from log.errors import AppendRefused
from protocol.errors import NOT_ENOUGH_REPLICAS, NOT_LEADER_OR_FOLLOWER


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
