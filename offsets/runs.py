"""Runs: the values in which committed offsets and groups enter and leave the log.

A run is the content of one record, or of many records of one kind. Handlers make runs, the runtime
appends their bytes, and ``replay`` folds them into the cache, both live and at load. Every run is
one of the three classes below; encoding, replay and loading take a run whole.
"""

from __future__ import annotations

from collections.abc import Sequence

from protocol.slotted import slotted


@slotted
class OffsetRun:
    """Offsets of one group in one topic, one record a partition (key version 1, value 3 or 1).

    ``partitions``, ``offsets`` and ``leader_epochs`` are columns of equal length, in request order.
    ``metadata`` is None when every entry's metadata is empty. ``expire_timestamp_ms`` is -1 unless
    the client named a retention (OffsetCommit v2 to v4): then the value is written as version 1.
    All entries share one commit timestamp; OffsetCommit v1's own timestamps make several runs.
    """

    group_id: str
    topic: str
    partitions: Sequence[int]
    offsets: Sequence[int]
    leader_epochs: Sequence[int]
    metadata: Sequence[str] | None
    commit_timestamp_ms: int
    expire_timestamp_ms: int = -1

    def __len__(self) -> int:
        return len(self.partitions)


@slotted
class OffsetTombstones:
    """Deleted offsets of one group: one record with a null value for each (topic, partition)."""

    group_id: str
    keys: Sequence[tuple[str, int]]

    def __len__(self) -> int:
        return len(self.keys)


@slotted
class GroupMember:
    """A member as a GroupMetadataValue keeps it; ``subscription`` is for the selected protocol."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@slotted
class GroupValue:
    """GroupMetadataValue, version 3 when written. ``state_timestamp_ms`` is -1 where unknown."""

    protocol_type: str
    generation_id: int
    protocol_name: str | None
    leader: str | None
    state_timestamp_ms: int
    members: Sequence[GroupMember]


@slotted
class GroupRun:
    """One group's metadata record (key version 2); ``value`` None is its tombstone."""

    group_id: str
    value: GroupValue | None

    def __len__(self) -> int:
        return 1


@slotted
class TransactionalRun:
    """What one TxnOffsetCommit writes: a batch of its own, with its producer (KIP-98).

    Its offsets are pending until the producer's marker comes. They are written as `OffsetRun` is.
    """

    producer_id: int
    producer_epoch: int
    runs: Sequence[OffsetRun]

    def __len__(self) -> int:
        return sum(map(len, self.runs))


@slotted
class MarkerRun:
    """The end of a producer's transaction in this partition: a control batch, one offset."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool

    def __len__(self) -> int:
        return 1


Run = OffsetRun | OffsetTombstones | GroupRun
OwnBatch = TransactionalRun | MarkerRun
"""Runs that stand in a batch of their own, which says whose they are."""
