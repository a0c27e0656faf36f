"""StreamsGroupDescribe: describes the state of a streams group."""

from __future__ import annotations

from dataclasses import replace

from coordinator.outcome import DescribedStreamsMember, Outcome, StreamsDescribeReply, answered
from coordinator.step import ShardState
from coordinator.streams.calls import StreamsGroupDescribe
from coordinator.streams.group import StreamsGroup
from offsets.streams_records import StreamsCurrentAssignment, TaskRoles, Topology
from protocol.errors import GROUP_ID_NOT_FOUND, NONE
from protocol.now import Now


def describe(state: ShardState, call: StreamsGroupDescribe, now: Now) -> Outcome:  # noqa: ARG001
    """Returns the description of a streams group. A group of another type gets
    GROUP_ID_NOT_FOUND."""
    group_id = call.group_id
    group = state.streams_groups.get(group_id)
    if group is None:
        text = f"Group {group_id} not found."
        if state.has_group(group_id):
            text = f"Group {group_id} is not a streams group."
        return answered(call.ticket, StreamsDescribeReply(GROUP_ID_NOT_FOUND, group_id, text))
    members = tuple(
        DescribedStreamsMember(
            member.member_id,
            member.metadata,
            member.current.epoch,
            roles(member.current),
            group.target_of(member.member_id),
        )
        for member in group.members.values()
    )
    reply = StreamsDescribeReply(
        NONE,
        group_id,
        None,
        group.state().value,
        group.epoch.epoch,
        group.target_epoch.epoch,
        _topology(group),
        members,
    )
    return answered(call.ticket, reply)


def roles(current: StreamsCurrentAssignment) -> TaskRoles:
    """Returns the assigned tasks of a member, without epochs."""
    active = {name: tuple(epochs) for name, epochs in current.active.items()}
    return TaskRoles(active, current.standby, current.warmup)


def _topology(group: StreamsGroup) -> Topology | None:
    """Returns the topology of a group. If the topology is ready, the result has the partition
    counts of its internal topics."""
    topology, configured = group.topology, group.configured
    if topology is None or configured is None or configured.status:
        return topology
    return replace(topology, subtopologies=configured.subtopologies)
