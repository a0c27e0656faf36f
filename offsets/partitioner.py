"""Computes which partition of a coordinator's topic belongs to a key, as Kafka does.

The keys are group ids for ``__consumer_offsets``, and transactional ids for
``__transaction_state``.
"""

from __future__ import annotations

from protocol.java_hash import java_hash


def partition_for(key: str, partitions: int) -> int:
    """Returns the partition, from 0, to which a group id or a transactional id belongs. It is
    Kafka's ``Utils.abs(hash) % count``. ``Utils.abs`` returns 0 for the smallest int32, which has
    no positive counterpart."""
    hashed = java_hash(key)
    return 0 if hashed == -(1 << 31) else abs(hashed) % partitions


def misplaced(what: str, key: str, partition: int, partitions: int) -> str | None:
    """Returns the reason, as text, why a record of the group or id ``key`` must not be in
    ``partition``; None if it belongs there.

    Clients would never find such a record: they send requests to the coordinator in whose partition
    the record belongs.
    """
    owner = partition_for(key, partitions)
    if owner == partition:
        return None
    return f"{what} {key!r} belongs to partition {owner} of {partitions}, not to {partition}"
