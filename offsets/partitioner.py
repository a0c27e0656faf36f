"""The partition of ``__consumer_offsets`` that keeps a group, computed as Kafka does."""

from __future__ import annotations

from protocol.java_hash import java_hash


def partition_for(group_id: str, partitions: int) -> int:
    """The partition, from 0, of a group among ``partitions``.

    Kafka's ``Utils.abs(hash) % count``, where the smallest number, having no positive twin, is 0.
    """
    hashed = java_hash(group_id)
    return 0 if hashed == -(1 << 31) else abs(hashed) % partitions
