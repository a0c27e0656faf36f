"""Records of consumer groups (KIP-848) in ``__consumer_offsets``, as values.

Key types 3 to 8 and 16; a value of None is a tombstone. `ConsumerGroupRun` is what one step writes
for one group: its records stay in one batch, in the order that Kafka's loader demands. Source:
Kafka 4.3.1 ``GroupCoordinatorRecordHelpers``; docs/formats/consumer-offsets.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from protocol.slotted import slotted

AssignedEpochs = Mapping[bytes, Mapping[int, int]]
"""Topic id (16 bytes) to partition to the member epoch at which the member got it. No topic is
empty."""

Assignment = Mapping[bytes, tuple[int, ...]]
"""Topic id to partitions, in ascending order. No topic is empty."""


@slotted(frozen=True)
class ClassicMember:
    """The classic half of a member that joined with JoinGroup (KIP-848, online migration)."""

    session_timeout_ms: int
    protocols: Sequence[tuple[str, bytes]]


@slotted(frozen=True)
class MemberMetadata:
    """The subscription and the properties of a member, from its heartbeats (type 5)."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    """Begins with a slash, as Kafka writes it: ``/127.0.0.1``."""
    subscribed_topics: tuple[str, ...] = ()
    """Names, in ascending order."""
    subscribed_regex: str | None = ""
    """"" when it has none; null in records of other writers counts as none."""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMember | None = None


@slotted(frozen=True)
class CurrentAssignment:
    """The epoch, state and partitions of a member (type 8)."""

    epoch: int = 0
    previous_epoch: int = 0
    """Its epoch before the last change; a heartbeat with it is accepted when it may come from a
    member that did not get the last response."""
    state: int = 0
    """`coordinator.consumer.states.MemberState`; a later version may write other values."""
    assigned: AssignedEpochs = field(default_factory=dict)
    revoking: AssignedEpochs = field(default_factory=dict)
    """The partitions that it must give up and still owns: "pending revocation" in Kafka."""


@slotted(frozen=True)
class GroupEpoch:
    """The epoch of a group (type 3). ``metadata_hash``: of its topics, as int64; 0: none exists."""

    epoch: int
    metadata_hash: int = 0


@slotted(frozen=True)
class TargetEpoch:
    """The epoch of a group's target assignment (type 6) and when it was computed, wall time."""

    epoch: int
    timestamp_ms: int = 0
    """0: unknown; the next heartbeat may compute a target at once."""


@slotted(frozen=True)
class ResolvedRegex:
    """The topics that a regex matched (type 16), in ascending order."""

    topics: tuple[str, ...]
    version: int
    """The version of the metadata image that was matched."""
    timestamp_ms: int


@slotted
class EpochRecord:
    """Type 3."""

    value: GroupEpoch | None


@slotted
class TopicsRecord:
    """Type 4, topic metadata. Kafka wrote it until 4.0; now only its tombstone is written.

    ``value``: True for any value that a record has.
    """

    value: bool | None = None


@slotted
class MemberRecord:
    """Type 5."""

    member_id: str
    value: MemberMetadata | None


@slotted
class TargetEpochRecord:
    """Type 6."""

    value: TargetEpoch | None


@slotted
class TargetRecord:
    """Type 7: the target assignment of one member."""

    member_id: str
    value: Assignment | None


@slotted
class CurrentRecord:
    """Type 8."""

    member_id: str
    value: CurrentAssignment | None


@slotted
class RegexRecord:
    """Type 16."""

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
    """Records of one consumer group, written as a part of one batch that is never split."""

    group_id: str
    records: Sequence[ConsumerRecord]
    timestamp_ms: int = -1
    """Wall time at which the records were written; -1: unknown."""

    def __len__(self) -> int:
        return len(self.records)
