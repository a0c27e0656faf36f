"""Applies an accepted request of a member to its streams group.

A request may change, in this order: the member's metadata, the topology, the group's epoch, the
target assignment, and the member's own assignment. Handlers check group, member and epoch before
`advance`, and reply after `advance`.

Source: KIP-1071; Kafka 4.3.1 ``GroupMetadataManager.streamsGroupHeartbeat``.
"""

from __future__ import annotations

from typing import NamedTuple

from coordinator.consumer.events import EpochBumped, EpochCause, MemberReconciled
from coordinator.consumer.refused import Refused
from coordinator.events import MemberJoined
from coordinator.step import Step, fits
from coordinator.streams.calls import StreamsHeartbeat
from coordinator.streams.changes import StreamsChanges, assignment_configs
from coordinator.streams.events import FirstTargetDelayed, TopologyChecked
from coordinator.streams.group import NO_ASSIGNMENT, NO_TASKS, StreamsGroup, StreamsMember
from coordinator.streams.reconcile import Towards, must_rejoin, reconcile
from coordinator.streams.reporting import reconciled
from coordinator.streams.states import MemberState, StatusCode
from coordinator.streams.target import (
    compute_in_sweep,
    compute_target,
    is_large,
    may_exceed_a_batch,
)
from coordinator.streams.topology import ConfiguredTopology, configure, required_topics
from coordinator.streams.wording import who
from offsets.runs import GroupRun, Run
from offsets.streams_records import (
    StreamsCurrentAssignment,
    StreamsCurrentRecord,
    StreamsGroupRun,
    StreamsMemberMetadata,
    StreamsMemberRecord,
    StreamsTopologyRecord,
    TaskRoles,
    Topology,
)
from protocol.errors import (
    FENCED_MEMBER_EPOCH,
    GROUP_MAX_SIZE_REACHED,
    INVALID_REQUEST,
    STREAMS_INVALID_TOPOLOGY,
)

Statuses = list[tuple[int, str]]
"""The statuses of a heartbeat response (code and text), in Kafka's order."""


_TOO_LARGE = " does not fit into a batch of __consumer_offsets (max.message.bytes)."
_TARGET_TOO_LARGE = f"The group's target assignment{_TOO_LARGE}"
_METADATA_TOO_LARGE = f"The metadata of the member, with its client tags,{_TOO_LARGE}"
_TOPOLOGY_TOO_LARGE = f"The topology{_TOO_LARGE}"
_TASK_BYTES = 4
"""The minimum number of bytes of a task in a record."""


class Advanced(NamedTuple):
    """The result of a member's request: the group, the member, and its assignments before and after
    the request."""

    group: StreamsGroup
    member: StreamsMember
    metadata: StreamsMemberMetadata
    before: StreamsCurrentAssignment
    after: StreamsCurrentAssignment


def advance(
    step: Step,
    call: StreamsHeartbeat,
    group: StreamsGroup,
    known: StreamsMember | None,
    updated: StreamsMemberMetadata,
    statuses: Statuses,
) -> Advanced | Refused:
    """Emits the records and events of a request, and adds the group's statuses to ``statuses``.

    ``known`` is the member that sent the request, or None if the sender joins. ``updated`` is the
    member's metadata with the changes of the request.
    """
    changes = StreamsChanges(group)
    before = NO_ASSIGNMENT if known is None else known.current
    cause = None
    if known is None or updated != known.metadata:
        changes.set_metadata(call.member_id, updated)
        cause = EpochCause.MEMBER_JOINED if known is None else EpochCause.METADATA_CHANGED
    topology = _topology(changes, call.topology)
    if isinstance(topology, Refused):
        return topology
    if group.topology is not None and updated.topology_epoch < topology.epoch:
        text = (
            f"The member's topology epoch {updated.topology_epoch} is behind the group's topology"
            f" epoch {topology.epoch}."
        )
        statuses.append((StatusCode.STALE_TOPOLOGY.value, text))
    configured, metadata_hash = _configured(step, group, topology)
    refused = _unknown_task(configured, call.owned) or _unconfirmed(before, call.owned)
    if configured.invalid is not None:
        refused = Refused(STREAMS_INVALID_TOPOLOGY, configured.invalid)
    elif _exceeds_a_batch(step, configured):
        refused = Refused(GROUP_MAX_SIZE_REACHED, _TARGET_TOO_LARGE)
    refused = refused or _too_large(step, changes)
    if refused is not None:
        return refused
    _change_epoch(step, changes, call.member_id, topology, configured, metadata_hash, cause)
    target = _target(step, changes, configured, statuses)
    if isinstance(target, Refused):
        step.events.clear()
        return target
    if target is None:
        target = changes.targets.get(call.member_id, NO_TASKS)
    towards = Towards(changes.target_epoch.epoch, target, updated.process_id, group.processes)
    after = reconcile(before, towards, call.owned)
    if after is not before:
        changes.records.append(StreamsCurrentRecord(call.member_id, after))
    statuses.extend(configured.status)
    if not _emit(step, changes):
        step.events.clear()
        return Refused(GROUP_MAX_SIZE_REACHED, _TARGET_TOO_LARGE)
    _checked(step, group, configured)
    group.configured = configured
    group.refresh_wanted = False
    member = known or _joined(step, group, call.member_id, updated)
    if after is not before:
        _reconciled(step, changes, member, updated, before, after)
    return Advanced(group, member, updated, before, after)


def _checked(step: Step, group: StreamsGroup, configured: ConfiguredTopology) -> None:
    """Emits an event if the topology's problem is new, has changed or has ended. Stores the time
    since which the topology has had a problem."""
    before = () if group.configured is None else group.configured.status
    if configured.status != before:
        code, detail = configured.status[0] if configured.status else (0, "")
        step.events.append(TopologyChecked(group.group_id, code, detail))
    if not configured.status:
        group.not_ready_since = None
    elif group.not_ready_since is None:
        group.not_ready_since = step.now


def _topology(changes: StreamsChanges, sent: Topology | None) -> Topology | Refused:
    """Returns the topology that the group has after the request, or the error for a topology that
    is not accepted."""
    known = changes.group.topology
    if known is None and sent is None:  # a log of another writer, after compaction
        text = "The group has lost its topology. The member must abandon all its tasks and rejoin."
        return Refused(FENCED_MEMBER_EPOCH, text)
    if known is None:
        assert sent is not None
        changes.records.append(StreamsTopologyRecord(sent))
        return sent
    if sent is not None and known.epoch <= sent.epoch and not _are_equal(known, sent):
        return Refused(INVALID_REQUEST, "Topology updates are not supported yet.")
    return known


def _are_equal(known: Topology, sent: Topology) -> bool:
    """Returns whether two topologies have the same epoch and the same subtopologies, in any
    order."""
    return known.epoch == sent.epoch and {
        each.subtopology_id: each for each in known.subtopologies
    } == {each.subtopology_id: each for each in sent.subtopologies}


def _configured(
    step: Step, group: StreamsGroup, topology: Topology
) -> tuple[ConfiguredTopology, int]:
    """Returns the topology with its partition counts, and the hash of the metadata of its
    topics."""
    configured, metadata_hash = group.configured, group.epoch.metadata_hash
    if configured is not None and not group.refresh_wanted:
        return configured, metadata_hash
    image = step.state.topics
    new_hash = image.metadata_hash(required_topics(topology))
    if configured is None or new_hash != metadata_hash:
        configured = configure(topology, image)
    return configured, new_hash


def _exceeds_a_batch(step: Step, configured: ConfiguredTopology) -> bool:
    """Returns whether the tasks are too many for one batch. A small request can describe many
    tasks, so their number is checked before they are assigned."""
    tasks = sum(each.tasks for each in configured.tasks.values())
    return tasks * _TASK_BYTES > step.state.config.max_record_bytes


def _too_large(step: Step, changes: StreamsChanges) -> Refused | None:
    """Returns the error for the metadata or the topology of the member if they do not fit in a
    batch."""
    for kind, text in (
        (StreamsTopologyRecord, _TOPOLOGY_TOO_LARGE),
        (StreamsMemberRecord, _METADATA_TOO_LARGE),
    ):
        records = [each for each in changes.records if isinstance(each, kind)]
        run = StreamsGroupRun(changes.group.group_id, records)
        if records and not fits([run], step.state.config.max_record_bytes):
            return Refused(GROUP_MAX_SIZE_REACHED, text)
    return None


def _unknown_task(configured: ConfiguredTopology, owned: TaskRoles | None) -> Refused | None:
    """Returns INVALID_REQUEST if the topology is ready and the member lists a task that the
    topology does not have."""
    if owned is None or configured.status:
        return None
    for tasks in (owned.active, owned.standby, owned.warmup):
        for name, partitions in tasks.items():
            of_subtopology = configured.tasks.get(name)
            if of_subtopology is None:
                text = f"Subtopology {name} does not exist in the topology."
                return Refused(INVALID_REQUEST, text)
            for partition in partitions:
                if not 0 <= partition < of_subtopology.tasks:
                    text = (
                        f"Task {partition} for subtopology {name} is invalid. Number of tasks for"
                        f" this subtopology: {of_subtopology.tasks}"
                    )
                    return Refused(INVALID_REQUEST, text)
    return None


def _unconfirmed(current: StreamsCurrentAssignment, owned: TaskRoles | None) -> Refused | None:
    if not must_rejoin(current, owned):
        return None
    text = (
        "The streams group member is in a unknown state. The member must abandon all its tasks and"
        " rejoin."
    )
    return Refused(FENCED_MEMBER_EPOCH, text)


def _change_epoch(
    step: Step,
    changes: StreamsChanges,
    member_id: str,
    topology: Topology,
    configured: ConfiguredTopology,
    metadata_hash: int,
    cause: EpochCause | None,
) -> None:
    """Raises the group's epoch if a member, the topics or the settings of the assignor have
    changed. ``cause`` describes the change of the member."""
    group = changes.group
    settings = step.state.config.of_streams_group(group.group_id)
    validated = -1 if configured.status else topology.epoch
    if cause is None and (
        metadata_hash != group.epoch.metadata_hash
        or validated != group.epoch.validated_topology_epoch
    ):
        cause = EpochCause.TOPICS_CHANGED
    if cause is None and group.epoch.last_assignment_configs != assignment_configs(settings):
        cause = EpochCause.SETTINGS_CHANGED
    if cause is None:
        return
    changes.bump(metadata_hash, validated, settings)
    by_member = cause in (EpochCause.MEMBER_JOINED, EpochCause.METADATA_CHANGED)
    name = who(member_id, changes.members[member_id])
    detail = {
        EpochCause.MEMBER_JOINED: f"{name} joined",
        EpochCause.METADATA_CHANGED: f"{name} changed its properties",
        EpochCause.SETTINGS_CHANGED: "streams.num.standby.replicas changed",
    }.get(cause, "a topic of the topology was created, deleted or given more partitions")
    awaited = tuple(each for each in changes.members if not (by_member and each == member_id))
    epoch, caused_by = changes.epoch.epoch, member_id if by_member else ""
    step.events.append(EpochBumped(group.group_id, epoch, cause, caused_by, detail, awaited))


def _target(
    step: Step, changes: StreamsChanges, configured: ConfiguredTopology, statuses: Statuses
) -> TaskRoles | Refused | None:
    """Computes a new target assignment if the group needs one. If the computation must wait, or
    takes several steps, adds a status that says so.

    Usually returns None. During the initial rebalance delay, returns an empty assignment, which the
    member gets in place of its target. If the target assignment of a large group may not fit in a
    batch, returns an error.
    """
    group = changes.group
    settings = step.state.config.of_streams_group(group.group_id)
    if not group.members and settings.initial_rebalance_delay_ms and not group.is_delayed:
        step.arm(group.initial_delay, settings.initial_rebalance_delay_ms)
        delayed = FirstTargetDelayed(group.group_id, settings.initial_rebalance_delay_ms)
        step.events.append(delayed)
    if group.is_delayed:
        text = "Assignment delayed due to the configured initial rebalance delay."
        statuses.append((StatusCode.ASSIGNMENT_DELAYED.value, text))
        return NO_TASKS
    if changes.target_epoch.epoch >= changes.epoch.epoch:
        return None
    computed_ms, now_ms = changes.target_epoch.timestamp_ms, step.now.wall_ms
    if computed_ms and 0 <= now_ms - computed_ms < settings.assignment_interval_ms:
        text = "Assignment delayed due to the configured assignment interval."
        statuses.append((StatusCode.ASSIGNMENT_DELAYED.value, text))
        return None
    if not is_large(step, changes, configured):
        compute_target(step, changes, configured)
        return None
    if may_exceed_a_batch(step, changes, configured):
        return Refused(GROUP_MAX_SIZE_REACHED, _TARGET_TOO_LARGE)
    compute_in_sweep(step, group)
    text = "Assignment delayed until the target assignment of the large group is computed."
    statuses.append((StatusCode.ASSIGNMENT_DELAYED.value, text))
    return None


def end_initial_delay(step: Step, group: StreamsGroup) -> None:
    """Computes the first target at the end of the initial rebalance delay. Each member gets its
    tasks with its next heartbeat."""
    topology, is_behind = group.topology, group.epoch.epoch > group.target_epoch.epoch
    if not group.members or topology is None or not is_behind:
        return
    changes = StreamsChanges(group)
    configured = group.configured or configure(topology, step.state.topics)
    if is_large(step, changes, configured):
        compute_in_sweep(step, group)
        return
    compute_target(step, changes, configured)
    if not _emit(step, changes):
        step.events.pop()  # the next heartbeat is refused with the reason


def _emit(step: Step, changes: StreamsChanges) -> bool:
    """Adds the records of ``changes`` to ``step`` if they fit in one batch, because these records
    must not be split. Returns whether they fit."""
    state, group = step.state, changes.group
    runs: list[Run] = []
    classic = state.groups.get(group.group_id)
    if classic is not None and classic.record_offset >= 0:
        runs.append(GroupRun(group.group_id, None))
    if changes.records:
        runs.append(StreamsGroupRun(group.group_id, changes.records, step.now.wall_ms))
        if not fits(runs, state.config.max_record_bytes):
            group.initial_delay.disarm()
            return False
        group.changed_ms = step.now.mono_ms
    step.records += runs
    state.groups.pop(group.group_id, None)
    state.streams_groups[group.group_id] = group
    return True


def _joined(
    step: Step, group: StreamsGroup, member_id: str, metadata: StreamsMemberMetadata
) -> StreamsMember:
    """Returns the member that joined. Emits the event of the join before the event of the new
    epoch, so that the journal lists the join in the rebalance that the new epoch begins."""
    client = metadata.client_id, metadata.client_host
    step.events.insert(0, MemberJoined(group.group_id, member_id, None, *client, None))
    return group.new_member(member_id)


def _reconciled(
    step: Step,
    changes: StreamsChanges,
    member: StreamsMember,
    metadata: StreamsMemberMetadata,
    before: StreamsCurrentAssignment,
    after: StreamsCurrentAssignment,
) -> None:
    """Arms the timer of the rebalance timeout if the member must give up tasks, otherwise disarms
    it. Emits the events of the member's new assignment."""
    if after.state == MemberState.UNREVOKED:
        step.arm(member.rebalance, max(0, metadata.rebalance_timeout_ms))
    else:
        member.rebalance.disarm()
    group_id = changes.group.group_id
    step.events.append(MemberReconciled(group_id, member.member_id, before, after))
    reconciled(step, changes, member.member_id, after)
