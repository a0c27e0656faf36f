"""Lets tools that compare replicas, such as kafka-replica-verification.sh, read from followers.

These tools send replica id -2, which Kafka calls a debugging consumer. Like other clients, they get
only committed records.
"""

from __future__ import annotations

from broker.topics.partition import Partition
from broker.topics.replicas.replica_of import replica_of
from broker.topics.replicas.roles import Role
from protocol.errors import NONE, NOT_LEADER_OR_FOLLOWER

COMPARES_REPLICAS = -2
"""The replica id in requests of a tool that compares replicas."""


def error_at(partition: Partition, error_code: int, replica_id: int) -> int:
    """Replaces NOT_LEADER_OR_FOLLOWER by NONE if the replica on this broker is a follower and the
    reader is a tool that compares replicas. Returns any other ``error_code`` unchanged."""
    replica = replica_of(partition)
    serves = (
        error_code == NOT_LEADER_OR_FOLLOWER
        and replica_id == COMPARES_REPLICAS
        and replica is not None
        and replica.role is Role.FOLLOWER
    )
    return NONE if serves else error_code
