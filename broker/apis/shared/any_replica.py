"""Tools that compare replicas, such as kafka-replica-verification.sh, may read from followers.

These tools send replica id -2, which Kafka calls a debugging consumer, and get committed records,
like other clients.
"""

from __future__ import annotations

from broker.topics.partition import Partition
from broker.topics.replicas.replica_of import replica_of
from broker.topics.replicas.roles import Role
from protocol.errors import NONE, NOT_LEADER_OR_FOLLOWER

COMPARES_REPLICAS = -2
"""The replica id that a tool sends when it compares replicas."""


def error_at(partition: Partition, error_code: int, replica_id: int) -> int:
    """Returns NONE if a tool that compares replicas reads from a follower, and otherwise
    ``error_code``."""
    replica = replica_of(partition)
    serves = (
        error_code == NOT_LEADER_OR_FOLLOWER
        and replica_id == COMPARES_REPLICAS
        and replica is not None
        and replica.role is Role.FOLLOWER
    )
    return NONE if serves else error_code
