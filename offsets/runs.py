"""Runs: the values in which committed offsets and groups are written to the log and read from the
log.

A run is the content of one record, or of many records of one kind. Handlers create runs, the broker
appends their bytes, and ``replay`` applies runs to the cache, after a write and at load. Encoding,
replay and loading process a run as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence

from offsets.consumer_records import ConsumerGroupRun
from offsets.share_records import ShareGroupRun
from offsets.streams_records import StreamsGroupRun
from protocol.slotted import slotted


@slotted
class OffsetRun:
    """Offsets of one group in one topic, one record per partition (key version 1, value version 3
    or 1).

    ``partitions``, ``offsets`` and ``leader_epochs`` are columns of equal length, in request order.
    ``metadata`` is None if all metadata is empty. ``expire_timestamp_ms`` is -1 unless the client
    set a retention (OffsetCommit v2 to v4); with a retention the value has version 1. All offsets
    have one commit timestamp: an OffsetCommit v1 with several timestamps becomes several runs.
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
    """Deletions of offsets of one group: one record with a null value for each (topic,
    partition)."""

    group_id: str
    keys: Sequence[tuple[str, int]]

    def __len__(self) -> int:
        return len(self.keys)


@slotted
class GroupMember:
    """A member in a GroupMetadataValue. ``subscription`` is its metadata for the selected
    protocol."""

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
    """The value of a classic group's record, GroupMetadataValue. ``state_timestamp_ms`` is -1 if
    unknown."""

    protocol_type: str
    generation_id: int
    protocol_name: str | None
    leader: str | None
    state_timestamp_ms: int
    members: Sequence[GroupMember]


@slotted
class GroupRun:
    """The metadata record of one classic group (key version 2). A ``value`` of None is a
    tombstone."""

    group_id: str
    value: GroupValue | None

    def __len__(self) -> int:
        return 1


@slotted
class TransactionalRun:
    """The offsets of one TxnOffsetCommit, which become a batch of their own with the producer's id
    (KIP-98).

    The offsets are pending until the producer's transaction marker is written. Their records are
    encoded in the same way as those of an `OffsetRun`.
    """

    producer_id: int
    producer_epoch: int
    runs: Sequence[OffsetRun]

    def __len__(self) -> int:
        return sum(map(len, self.runs))


@slotted
class MarkerRun:
    """The end of a producer's transaction in this partition: a control batch with one record."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool

    def __len__(self) -> int:
        return 1


GroupStateRun = ConsumerGroupRun | ShareGroupRun | StreamsGroupRun
"""The records of a consumer, share or streams group. The state of such a group results only from
its records."""
Run = OffsetRun | OffsetTombstones | GroupRun | GroupStateRun
OwnBatch = TransactionalRun | MarkerRun
"""The runs that are written in a batch of their own, because the batch has the producer's id."""
