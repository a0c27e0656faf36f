"""Tools that compare replicas, as kafka-replica-verification.sh does: followers serve them too.

They say that they are replica -2, which Kafka calls a debugging consumer, and get what is
committed, like any other client.
"""

from __future__ import annotations

from broker.topics.partition import Partition
from broker.topics.replicas.replica_of import replica_of
from broker.topics.replicas.roles import Role
from protocol.errors import NONE, NOT_LEADER_OR_FOLLOWER

COMPARES_REPLICAS = -2
"""The replica that such a tool says it is."""


def error_at(partition: Partition, error_code: int, replica_id: int) -> int:
    """``error_code`` of a partition, but none for such a tool where the partition is followed."""
    replica = replica_of(partition)
    serves = (
        error_code == NOT_LEADER_OR_FOLLOWER
        and replica_id == COMPARES_REPLICAS
        and replica is not None
        and replica.role is Role.FOLLOWER
    )
    return NONE if serves else error_code
