"""Records of streams groups (KIP-1071) in ``__consumer_offsets``, as values.

The key types are 17 and 19 to 23. A value of None is a tombstone. A `StreamsGroupRun` has the
records that one step writes for one group. These records stay in one batch, in the order that
Kafka's loader requires. Source: Kafka 4.3.1 ``StreamsCoordinatorRecordHelpers``;
docs/formats/consumer-offsets.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from protocol.slotted import slotted

Tasks = Mapping[str, tuple[int, ...]]
"""Tasks as the partitions of each subtopology, in ascending order, by subtopology id. A subtopology
without tasks is omitted."""
TaskEpochs = Mapping[str, Mapping[int, int]]
"""The epoch at which a member received each task, by subtopology id and partition."""


@slotted(frozen=True)
class TaskRoles:
    """The tasks of a member in each role."""

    active: Tasks = field(default_factory=dict)
    standby: Tasks = field(default_factory=dict)
    warmup: Tasks = field(default_factory=dict)


@slotted(frozen=True)
class InternalTopic:
    """A repartition or changelog topic that the application needs."""

    name: str
    partitions: int = 0
    """The number of partitions; 0 if the coordinator chooses it."""
    replication_factor: int = 0
    """The replication factor; 0 for the broker's default."""
    configs: tuple[tuple[str, str], ...] = ()


@slotted(frozen=True)
class CopartitionGroup:
    """Input topics of a subtopology that must all have the same number of partitions. Each field
    contains indexes into one of the subtopology's lists of topics."""

    source_topics: tuple[int, ...] = ()
    source_topic_regex: tuple[int, ...] = ()
    repartition_source_topics: tuple[int, ...] = ()


@slotted(frozen=True)
class Subtopology:
    """A connected part of the application's topology. It has one task per partition."""

    subtopology_id: str
    source_topics: tuple[str, ...] = ()
    source_topic_regex: tuple[str, ...] = ()
    state_changelog_topics: tuple[InternalTopic, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    repartition_source_topics: tuple[InternalTopic, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()


@slotted(frozen=True)
class Topology:
    """The topology of an application (record type 23). The client chooses its epoch."""

    epoch: int
    subtopologies: tuple[Subtopology, ...] = ()


@slotted(frozen=True)
class Endpoint:
    """The address at which a member serves interactive queries."""

    host: str
    port: int


@slotted(frozen=True)
class StreamsMemberMetadata:
    """The properties of a member, from its heartbeats (record type 19)."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    """The client's address with a slash before it, as in Kafka: ``/127.0.0.1``."""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    client_tags: tuple[tuple[str, str], ...] = ()


@slotted(frozen=True)
class StreamsGroupEpoch:
    """The epoch of a streams group (record type 17)."""

    epoch: int
    metadata_hash: int = 0
    """The int64 hash of the metadata of the group's topics; 0 if none of the topics exists."""
    validated_topology_epoch: int = -1
    """The epoch of the last topology whose topics all existed; -1 if the group never had such a
    topology."""
    last_assignment_configs: tuple[tuple[str, str], ...] = ()
    """The assignor's settings at the last assignment: pairs of name and value, in the order in
    which the record contains them."""


@slotted(frozen=True)
class StreamsTargetEpoch:
    """The epoch of a group's target assignment (record type 20), and the wall time in ms at which
    the assignment was computed; 0 if unknown."""

    epoch: int
    timestamp_ms: int = 0


@slotted(frozen=True)
class StreamsCurrentAssignment:
    """The epoch and tasks of a member (record type 22). ``state`` is Kafka's member state: 1
    STABLE, 2 UNREVOKED_TASKS, 3 UNRELEASED_TASKS."""

    epoch: int = 0
    previous_epoch: int = 0
    state: int = 1
    active: TaskEpochs = field(default_factory=dict)
    standby: Tasks = field(default_factory=dict)
    warmup: Tasks = field(default_factory=dict)
    revoking_active: TaskEpochs = field(default_factory=dict)
    revoking_standby: Tasks = field(default_factory=dict)
    revoking_warmup: Tasks = field(default_factory=dict)


@slotted
class StreamsEpochRecord:
    """The record of a group's epoch, type 17."""

    value: StreamsGroupEpoch | None


@slotted
class StreamsMemberRecord:
    """The record of a member's properties, type 19."""

    member_id: str
    value: StreamsMemberMetadata | None


@slotted
class StreamsTargetEpochRecord:
    """The record (type 20) of the target assignment's epoch."""

    value: StreamsTargetEpoch | None


@slotted(eq=False)
class StreamsTargetRecord:
    """The record (type 21) of the target assignment of one member."""

    member_id: str
    value: TaskRoles | None
    encoded_value: bytes | None = None
    """The encoded value, if it was encoded before the run was made. Records with different
    ``encoded_value`` can be equal."""

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, StreamsTargetRecord)
            and self.member_id == other.member_id
            and self.value == other.value
        )

    __hash__ = None  # type: ignore[assignment]


@slotted
class StreamsCurrentRecord:
    """The record of a member's current assignment, type 22."""

    member_id: str
    value: StreamsCurrentAssignment | None


@slotted
class StreamsTopologyRecord:
    """The record of the group's topology, type 23."""

    value: Topology | None


StreamsRecord = (
    StreamsEpochRecord
    | StreamsMemberRecord
    | StreamsTargetEpochRecord
    | StreamsTargetRecord
    | StreamsCurrentRecord
    | StreamsTopologyRecord
)


@slotted
class StreamsGroupRun:
    """Records of one streams group. They are written in one batch, which is never split."""

    group_id: str
    records: Sequence[StreamsRecord]
    timestamp_ms: int = -1
    """Wall time in ms at which the records were written; -1 if unknown."""

    def __len__(self) -> int:
        return len(self.records)
