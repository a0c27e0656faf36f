"""The partition of a coordinator's topic that keeps a key, computed as Kafka does.

``__consumer_offsets`` keeps groups, ``__transaction_state`` transactional ids.
"""

from __future__ import annotations

from protocol.java_hash import java_hash


def partition_for(key: str, partitions: int) -> int:
    """The partition, from 0, of a group or a transactional id among ``partitions``.

    Kafka's ``Utils.abs(hash) % count``, where the smallest number, having no positive twin, is 0.
    """
    hashed = java_hash(key)
    return 0 if hashed == -(1 << 31) else abs(hashed) % partitions


def misplaced(what: str, key: str, partition: int, partitions: int) -> str | None:
    """Why a record of ``key`` can't be in that partition of so many; None where it belongs there.

    Its clients ask another partition, which knows nothing of it.
    """
    owner = partition_for(key, partitions)
    if owner == partition:
        return None
    return (
        f"it is of {what} {key!r}, which belongs to partition {owner} of {partitions},"
        f" not to {partition}"
    )
