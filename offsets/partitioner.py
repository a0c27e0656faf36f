"""Computes the partition of a coordinator's topic for a key, as Kafka does.

``__consumer_offsets`` has groups, ``__transaction_state`` transactional ids.
"""

from __future__ import annotations

from protocol.java_hash import java_hash


def partition_for(key: str, partitions: int) -> int:
    """The partition, from 0, of a group or a transactional id among ``partitions``.

    Kafka's ``Utils.abs(hash) % count``, in which the smallest int32, which has no positive
    counterpart, becomes 0.
    """
    hashed = java_hash(key)
    return 0 if hashed == -(1 << 31) else abs(hashed) % partitions


def misplaced(what: str, key: str, partition: int, partitions: int) -> str | None:
    """Why a record of ``key`` must not be in this partition; None if it belongs there.

    Its clients ask the right partition, which lacks the record.
    """
    owner = partition_for(key, partitions)
    if owner == partition:
        return None
    return (
        f"it is of {what} {key!r}, which belongs to partition {owner} of {partitions},"
        f" not to {partition}"
    )
