"""Records of share groups (KIP-932) in ``__consumer_offsets``, as values.

The key types are 10 to 15. A value of None is a tombstone. A `ShareGroupRun` has the records that
one step writes for one group. These records stay in one batch, in the order that Kafka's loader
requires. Source: Kafka 4.3.1 ``GroupCoordinatorRecordHelpers``; docs/formats/consumer-offsets.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from offsets.consumer_records import Assignment
from protocol.slotted import slotted


@slotted(frozen=True)
class ShareMemberMetadata:
    """The subscription and the properties of a member, from its heartbeats (record type 10)."""

    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    """The client's address with a slash before it, as in Kafka: ``/127.0.0.1``."""
    subscribed_topics: tuple[str, ...] = ()


@slotted(frozen=True)
class ShareGroupEpoch:
    """The epoch of a share group (record type 11). ``metadata_hash`` is an int64 hash of the
    metadata of the group's topics, 0 if none of the topics exists."""

    epoch: int
    metadata_hash: int = 0


@slotted(frozen=True)
class ShareTargetEpoch:
    """The epoch of a group's target assignment (record type 12), and the wall time in ms at which
    the assignment was computed; 0 if unknown."""

    epoch: int
    timestamp_ms: int = 0


@slotted(frozen=True)
class ShareCurrentAssignment:
    """The epoch and partitions of a member (record type 14)."""

    epoch: int = 0
    previous_epoch: int = 0
    state: int = 0
    """Kafka's member state. A member of a share group is always STABLE (0)."""
    assigned: Assignment = field(default_factory=dict)


@slotted(frozen=True)
class StatePartitions:
    """The delivery states of the group's partitions at the share coordinator (record type 15):
    partitions whose state exists (``initialized``), is being created (``initializing``) or is being
    deleted (``deleting``). The first two map a topic id to the topic's name and its partitions in
    ascending order."""

    initializing: Mapping[bytes, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    initialized: Mapping[bytes, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    deleting: Mapping[bytes, str] = field(default_factory=dict)
    """The topics whose delivery state is being deleted: the topic's name by topic id."""


@slotted
class ShareMemberRecord:
    """The record of a member's subscription and properties, type 10."""

    member_id: str
    value: ShareMemberMetadata | None


@slotted
class ShareEpochRecord:
    """The record of a group's epoch, type 11."""

    value: ShareGroupEpoch | None


@slotted
class ShareTargetEpochRecord:
    """The record of the target assignment's epoch, type 12."""

    value: ShareTargetEpoch | None


@slotted
class ShareTargetRecord:
    """The record of the target assignment of one member, type 13."""

    member_id: str
    value: Assignment | None


@slotted
class ShareCurrentRecord:
    """The record of a member's current assignment, type 14."""

    member_id: str
    value: ShareCurrentAssignment | None


@slotted
class StatePartitionsRecord:
    """The record of the partitions whose delivery state is stored, type 15."""

    value: StatePartitions | None


ShareRecord = (
    ShareMemberRecord
    | ShareEpochRecord
    | ShareTargetEpochRecord
    | ShareTargetRecord
    | ShareCurrentRecord
    | StatePartitionsRecord
)


@slotted
class ShareGroupRun:
    """Records of one share group. They are written in one batch, which is never split."""

    group_id: str
    records: Sequence[ShareRecord]
    timestamp_ms: int = -1
    """Wall time in ms at which the records were written; -1 if unknown."""

    def __len__(self) -> int:
        return len(self.records)
