"""Error replies in place of replies whose records did not become stable.

A handler's reply is made before its records are written. When the write fails or takes too long,
each reply that depends on it is replaced by one of the same kind with only the error.
"""

from __future__ import annotations

from broker.topics.partition import NotYetStable
from coordinator.outcome import Reply, SyncReply, failed
from protocol.errors import COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, REBALANCE_IN_PROGRESS


def not_stable(reply: Reply, error: Exception) -> Reply:
    """The reply in place of one whose records did not become stable."""
    return timed_out(reply) if isinstance(error, NotYetStable) else write_failed(reply)


def write_failed(reply: Reply) -> Reply:
    """The reply when its append failed: NOT_COORDINATOR, as Kafka maps KAFKA_STORAGE_ERROR.

    Source: Kafka 3.9 ``GroupMetadataManager``, the mapping of append errors.
    """
    return failed(reply, NOT_COORDINATOR)


def timed_out(reply: Reply) -> Reply:
    """The reply when its records were not stable within ``offsets.commit.timeout.ms``.

    SyncGroup gets REBALANCE_IN_PROGRESS, as in Kafka up to 3.9, the rest COORDINATOR_NOT_AVAILABLE,
    as in 4.x: both make clients try again.
    """
    if isinstance(reply, SyncReply):
        return failed(reply, REBALANCE_IN_PROGRESS)
    return failed(reply, COORDINATOR_NOT_AVAILABLE)
