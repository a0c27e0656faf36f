"""The state of a streams group, as the records in the log define it.

Only `StreamsGroup.fold` changes this state, once for each new or loaded record. Some values are not
in records, and have their initial values after a load: timers, the configured topology, the start
of a problem with topics, a requested shutdown, and the epoch of the endpoints. After compaction a
member may have a current assignment but no metadata, or metadata but no current assignment. A
tombstone may be for a record that does not exist.

Source: Kafka 4.3.1 ``StreamsGroup``, ``GroupMetadataManager.replay``.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import TYPE_CHECKING

from coordinator.config import GroupConfig
from coordinator.outcome import StreamsHeartbeatReply
from coordinator.streams.states import STABLE, Role, StreamsGroupState, Task
from coordinator.timers import GroupTimer
from offsets.streams_records import (
    StreamsCurrentAssignment,
    StreamsCurrentRecord,
    StreamsEpochRecord,
    StreamsGroupEpoch,
    StreamsMemberMetadata,
    StreamsMemberRecord,
    StreamsRecord,
    StreamsTargetEpoch,
    StreamsTargetEpochRecord,
    StreamsTargetRecord,
    StreamsTopologyRecord,
    Subtopology,
    TaskRoles,
    Topology,
)
from protocol.deadlines import NEVER
from protocol.now import Now

if TYPE_CHECKING:
    from coordinator.streams.topology import ConfiguredTopology

STREAMS = "streams"
"""The protocol type of streams groups, which is also their type in ListGroups."""
INITIAL_EPOCH = 1
"""The epoch of a new group and of its target assignment. The first member raises the group's epoch
to 2."""
JOINING_EPOCH = 0
LEAVING_EPOCH = -1

NO_METADATA = StreamsMemberMetadata()
NO_ASSIGNMENT = StreamsCurrentAssignment()
NO_TASKS = TaskRoles()


class StreamsMember:
    """A member of a streams group."""

    __slots__ = ("current", "idle_reply", "member_id", "metadata", "rebalance", "session")

    def __init__(self, group_id: str, member_id: str) -> None:
        self.member_id = member_id
        self.metadata = NO_METADATA
        """The member's metadata. Only `StreamsGroup.fold` changes ``metadata`` and ``current``."""
        self.current = NO_ASSIGNMENT
        self.idle_reply: StreamsHeartbeatReply | None = None
        """The last reply to a heartbeat that changed nothing. If the reply to a later heartbeat
        without changes is equal, this object is returned again."""
        self.session = GroupTimer(group_id, member_id)
        """The timer of the member's session, which every accepted heartbeat extends. When it is
        due, the member is removed."""
        self.rebalance = GroupTimer(group_id, member_id)
        """The timer of the rebalance timeout. It runs while the member is UNREVOKED. When it is
        due, the member is removed."""


def session_timeout_ms(config: GroupConfig, member: StreamsMember) -> int:
    return config.of_streams_group(member.session.group_id).session_timeout_ms


class StreamsGroup:
    """One streams group of a shard."""

    __slots__ = (
        "_changelogs",
        "_holders",
        "_sources",
        "changed_ms",
        "configured",
        "endpoint_epoch",
        "epoch",
        "epoch_ms",
        "expiry_warned_ms",
        "group_id",
        "initial_delay",
        "members",
        "not_ready_since",
        "refresh_wanted",
        "shutdown_by",
        "target_epoch",
        "targets",
        "topology",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = StreamsGroupEpoch(INITIAL_EPOCH)
        self.epoch_ms = -1
        """The wall time in ms at which the epoch was last raised; -1 if unknown. If the group has
        no members, it has been empty since this time."""
        self.expiry_warned_ms = 0
        """The last warning about an expiring offset of the group, as the time before the expiry in
        ms. Warnings are emitted a day and an hour before an offset expires. 0 if no warning was due
        at the last check."""
        self.target_epoch = StreamsTargetEpoch(INITIAL_EPOCH)
        self.members: dict[str, StreamsMember] = {}
        self.targets: dict[str, TaskRoles] = {}
        """The target assignment of each member, by member id. A member that joined after the target
        was computed is missing."""
        self.topology: Topology | None = None
        """The topology of the application; None until the first member's records are in the log."""
        self.configured: ConfiguredTopology | None = None
        """The topology with the partition counts of its topics; None if these counts were not
        computed since the topology or its topics changed."""
        self.refresh_wanted = True
        """True if topics may have changed since the metadata hash was computed. This is so after a
        load, and after a topic of the topology was created, changed or deleted."""
        self.not_ready_since: Now | None = None
        """The time since which every check has found a problem with the topology's topics; None if
        the last check found none. Members that join or leave do not change this time."""
        self.changed_ms = 0
        """The monotonic time in ms of the last step that wrote records; after a load, the time of
        the load."""
        self.initial_delay = GroupTimer(group_id)
        """The timer of the initial rebalance delay, which the first member of an empty group
        starts. When it is due, the first target is computed."""
        self.shutdown_by: str | None = None
        """The id of the member that requested the shutdown of the application; None if no member
        has done so since the group was empty."""
        self.endpoint_epoch = 0
        """The endpoint epoch, which rises when the tasks of a member with an endpoint change."""
        self._holders: dict[Role, dict[Task, set[str]]] = {role: {} for role in Role}
        """By role and task: the member ids of the task's holders. A holder is a member to which the
        task is assigned, or a member that must still give up the task."""
        self._sources: dict[str, Subtopology] = {}
        """The subtopology that reads each source or repartition topic, by topic name."""
        self._changelogs: set[str] = set()

    # -------------------------------------------------------------------------------------- fold

    def fold(self, record: StreamsRecord, timestamp_ms: int = -1) -> None:
        """Applies a record that is in the log. ``timestamp_ms`` is the wall time at which the
        record was written."""
        if isinstance(record, StreamsCurrentRecord):
            if record.value is not None or record.member_id in self.members:
                self._set_current(record.member_id, record.value or NO_ASSIGNMENT)
        elif isinstance(record, StreamsMemberRecord):
            self._fold_metadata(record.member_id, record.value)
        elif isinstance(record, StreamsTargetRecord):
            if record.value is None:
                self.targets.pop(record.member_id, None)
            else:
                self.targets[record.member_id] = record.value
        elif isinstance(record, StreamsEpochRecord):
            self.epoch = record.value or StreamsGroupEpoch(INITIAL_EPOCH)
            self.epoch_ms = timestamp_ms
        elif isinstance(record, StreamsTargetEpochRecord):
            self.target_epoch = record.value or StreamsTargetEpoch(INITIAL_EPOCH)
        else:
            self._fold_topology(record.value)

    def _fold_metadata(self, member_id: str, value: StreamsMemberMetadata | None) -> None:
        if value is not None:
            self.new_member(member_id).metadata = value
            return
        if member_id in self.members:
            self._set_current(member_id, NO_ASSIGNMENT)
            del self.members[member_id]
        self.targets.pop(member_id, None)
        if not self.members:
            self.shutdown_by = None

    def _set_current(self, member_id: str, current: StreamsCurrentAssignment) -> None:
        member = self.new_member(member_id)
        for role, task in tasks_of(member.current):
            holders = self._holders[role].get(task, set())
            holders.discard(member_id)
            if not holders:
                self._holders[role].pop(task, None)
        member.current = current
        for role, task in tasks_of(current):
            self._holders[role].setdefault(task, set()).add(member_id)

    def _fold_topology(self, topology: Topology | None) -> None:
        if self.topology is not None:
            self.configured = None
        self.topology = topology
        self._sources, self._changelogs = {}, set()
        for each in () if topology is None else topology.subtopologies:
            repartition = (topic.name for topic in each.repartition_source_topics)
            self._sources.update(dict.fromkeys((*each.source_topics, *repartition), each))
            self._changelogs.update(topic.name for topic in each.state_changelog_topics)

    def new_member(self, member_id: str) -> StreamsMember:
        """Returns the member with this id. Creates it if necessary, so that its timers can be armed
        before the member's records are in the log."""
        member = self.members.get(member_id)
        if member is None:
            member = self.members[member_id] = StreamsMember(self.group_id, member_id)
        return member

    def records(self) -> Iterator[StreamsRecord]:
        """Yields the records of this group that a snapshot contains: for each key, the record with
        its present value. If the group changes during the iteration, a yielded record may be
        outdated; a later record in the log then replaces it."""
        members = list(self.members.items())
        for member_id, member in members:
            yield StreamsMemberRecord(member_id, member.metadata)
        if self.topology is not None:
            yield StreamsTopologyRecord(self.topology)
        yield StreamsEpochRecord(self.epoch)
        for member_id, target in list(self.targets.items()):
            yield StreamsTargetRecord(member_id, target)
        yield StreamsTargetEpochRecord(self.target_epoch)
        for member_id, member in members:
            yield StreamsCurrentRecord(member_id, member.current)

    # ------------------------------------------------------------------------------------- views

    def state(self) -> StreamsGroupState:
        topology = self.topology
        if not self.members:
            return StreamsGroupState.EMPTY
        if topology is None or topology.epoch != self.epoch.validated_topology_epoch:
            return StreamsGroupState.NOT_READY
        if self.epoch.epoch > self.target_epoch.epoch:
            return StreamsGroupState.ASSIGNING
        if all(self.is_reconciled(each.current) for each in self.members.values()):
            return StreamsGroupState.STABLE
        return StreamsGroupState.RECONCILING

    def is_reconciled(self, current: StreamsCurrentAssignment) -> bool:
        """Returns whether a member with the assignment ``current`` has adopted its whole target."""
        return current.state == STABLE and current.epoch == self.target_epoch.epoch

    def processes(self, role: Role, task: Task) -> Set[str]:
        """Returns the ids of the processes that have the task in this role. A task that a member
        must still give up counts too."""
        members = self.members
        return {members[each].metadata.process_id for each in self._holders[role].get(task, ())}

    def holders(self, role: Role, task: Task) -> Set[str]:
        """Returns the ids of the members that have the task in this role, assigned or revoking."""
        return self._holders[role].get(task, set())

    def target_of(self, member_id: str) -> TaskRoles:
        """Returns the target of a member; empty for a member that joined after the target was
        computed."""
        return self.targets.get(member_id, NO_TASKS)

    @property
    def is_delayed(self) -> bool:
        """Returns whether the first target is not computed yet because the initial rebalance delay
        has not ended."""
        return self.initial_delay.due_ms != NEVER

    def reader_of(self, topic: str) -> Subtopology | None:
        """Returns the subtopology that reads this source or repartition topic; None if no
        subtopology reads it."""
        return self._sources.get(topic)

    def subscribed_names(self) -> set[str]:
        """Returns the source and repartition topics that the members read. Returns an empty set if
        the group has no members, so that its offsets can be deleted."""
        return set(self._sources) if self.members else set()

    def knows_subscriptions(self) -> bool:
        return self.topology is not None

    def uses(self, topic: str) -> bool:
        """Returns whether the topology reads the topic, or uses it as a changelog."""
        return topic in self._sources or topic in self._changelogs


def tasks_of(current: StreamsCurrentAssignment) -> Iterator[tuple[Role, Task]]:
    """Yields the assigned and revoking tasks of a member, each with its role."""
    for role, assigned, revoking in (
        (Role.ACTIVE, current.active, current.revoking_active),
        (Role.STANDBY, current.standby, current.revoking_standby),
        (Role.WARMUP, current.warmup, current.revoking_warmup),
    ):
        for tasks in (assigned, revoking):
            for name, partitions in tasks.items():
                for partition in partitions:
                    yield role, (name, partition)
