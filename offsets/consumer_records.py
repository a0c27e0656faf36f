"""Records of consumer groups (KIP-848) in ``__consumer_offsets``, as values.

The key types are 3 to 8 and 16. A value of None is a tombstone. A `ConsumerGroupRun` has the
records that one step writes for one group. These records stay in one batch, in the order that
Kafka's loader requires. Source: Kafka 4.3.1 ``GroupCoordinatorRecordHelpers``;
docs/formats/consumer-offsets.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from protocol.slotted import slotted

AssignedEpochs = Mapping[bytes, Mapping[int, int]]
"""For each topic id (16 bytes) and partition, the member epoch at which the member got the
partition. A topic without partitions is omitted."""

Assignment = Mapping[bytes, tuple[int, ...]]
"""The partitions of each topic id, in ascending order. A topic without partitions is omitted."""


@slotted(frozen=True)
class ClassicMember:
    """The additional fields of a member of a consumer group that uses the classic protocol
    (KIP-848, online migration)."""

    session_timeout_ms: int
    protocols: Sequence[tuple[str, bytes]]


@slotted(frozen=True)
class MemberMetadata:
    """The subscription and the properties of a member, from its heartbeats (record type 5)."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    """The client's address with a slash before it, as in Kafka: ``/127.0.0.1``."""
    subscribed_topics: tuple[str, ...] = ()
    subscribed_regex: str | None = ""
    """The regex to which the member subscribes; "" without a regex. Records that another broker
    wrote may have null instead of ""."""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMember | None = None


@slotted(frozen=True)
class CurrentAssignment:
    """The epoch, state and partitions of a member (record type 8)."""

    epoch: int = 0
    previous_epoch: int = 0
    """The member's epoch before its last change. A member that did not receive the last response
    still sends this epoch, so a heartbeat with it may be accepted."""
    state: int = 0
    """A value of `coordinator.consumer.states.MemberState`; a later version of Muster may write
    other values."""
    assigned: AssignedEpochs = field(default_factory=dict)
    revoking: AssignedEpochs = field(default_factory=dict)
    """The partitions that the member must give up and still owns. Kafka calls them "pending
    revocation"."""


@slotted(frozen=True)
class GroupEpoch:
    """The epoch of a group (record type 3). ``metadata_hash`` is an int64 hash of the metadata of
    the group's topics, 0 if none of the topics exists."""

    epoch: int
    metadata_hash: int = 0


@slotted(frozen=True)
class TargetEpoch:
    """The epoch of a group's target assignment (record type 6), and the wall time at which the
    assignment was computed."""

    epoch: int
    timestamp_ms: int = 0
    """The wall time in ms at which the target was computed; 0 if unknown, so that the next
    heartbeat may compute a target immediately."""


@slotted(frozen=True)
class ResolvedRegex:
    """The topics that matched a regex, in ascending order (record type 16)."""

    topics: tuple[str, ...]
    version: int
    """The version of the topics image whose topics were matched."""
    timestamp_ms: int


@slotted
class EpochRecord:
    """The record of a group's epoch, type 3."""

    value: GroupEpoch | None


@slotted
class TopicsRecord:
    """A record of type 4, with metadata of topics. Kafka wrote such records until 4.0. Since then,
    Kafka and Muster write only tombstones of this type. ``value`` is True if the record is not a
    tombstone."""

    value: bool | None = None


@slotted
class MemberRecord:
    """The record of a member's subscription and properties, type 5."""

    member_id: str
    value: MemberMetadata | None


@slotted
class TargetEpochRecord:
    """The record of the target assignment's epoch, type 6."""

    value: TargetEpoch | None


@slotted
class TargetRecord:
    """The record of the target assignment of one member, type 7."""

    member_id: str
    value: Assignment | None


@slotted
class CurrentRecord:
    """The record of a member's current assignment, type 8."""

    member_id: str
    value: CurrentAssignment | None


@slotted
class RegexRecord:
    """A record of type 16: a regex, and the topics that matched it."""

    regex: str
    value: ResolvedRegex | None


ConsumerRecord = (
    EpochRecord
    | TopicsRecord
    | MemberRecord
    | TargetEpochRecord
    | TargetRecord
    | CurrentRecord
    | RegexRecord
)


@slotted
class ConsumerGroupRun:
    """Records of one consumer group. They are written in one batch, which is never split."""

    group_id: str
    records: Sequence[ConsumerRecord]
    timestamp_ms: int = -1
    """Wall time in ms at which the records were written; -1 if unknown."""

    def __len__(self) -> int:
        return len(self.records)
