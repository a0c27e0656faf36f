"""Removes members of streams groups: members that leave, and members that the coordinator fences.
Source: Kafka 4.3.1 ``GroupMetadataManager.streamsGroupLeave``, ``streamsGroupFenceMember``."""

from __future__ import annotations

from coordinator.consumer.events import EpochBumped, EpochCause
from coordinator.consumer.refused import Refused
from coordinator.events import Cause, MemberLeft
from coordinator.outcome import StreamsHeartbeatReply
from coordinator.step import Step
from coordinator.streams.calls import StreamsHeartbeat
from coordinator.streams.changes import StreamsChanges
from coordinator.streams.events import ShutdownRequested
from coordinator.streams.group import (
    NO_METADATA,
    StreamsGroup,
    StreamsMember,
    session_timeout_ms,
)
from coordinator.streams.states import Role
from coordinator.streams.wording import tasks_named, who
from coordinator.wording import seconds
from offsets.streams_records import StreamsGroupRun, StreamsMemberMetadata
from protocol.errors import GROUP_ID_NOT_FOUND, NONE, UNKNOWN_MEMBER_ID


def leave(step: Step, call: StreamsHeartbeat) -> Refused | None:
    """Handles a heartbeat by which a member leaves (epoch -1)."""
    group = step.state.streams_groups.get(call.group_id)
    if group is None:
        text = f"Group {call.group_id} not found."
        if step.state.has_group(call.group_id):
            text = f"Group {call.group_id} is not a streams group."
        return Refused(GROUP_ID_NOT_FOUND, text)
    member = group.members.get(call.member_id)
    if call.shutdown_application:
        metadata = NO_METADATA if member is None else member.metadata
        request_shutdown(step, group, call.member_id, metadata)
    if member is None:
        text = f"Member {call.member_id} is not a member of group {call.group_id}."
        return Refused(UNKNOWN_MEMBER_ID, text)
    fence(step, group, member, EpochCause.MEMBER_LEFT, "left")
    reply = StreamsHeartbeatReply(NONE, None, call.member_id, call.member_epoch)
    step.reply(call.ticket, reply)
    return None


def request_shutdown(
    step: Step, group: StreamsGroup, member_id: str, metadata: StreamsMemberMetadata
) -> None:
    """Records that a member requests the shutdown of the application. Only the first such member is
    recorded."""
    if group.shutdown_by is None:
        group.shutdown_by = member_id
        name = who(member_id, metadata)
        step.events.append(ShutdownRequested(group.group_id, member_id, name))


def fence(
    step: Step,
    group: StreamsGroup,
    member: StreamsMember,
    cause: EpochCause,
    detail: str,
    silent_ms: int = -1,
) -> None:
    """Removes a member and raises the epoch. The next heartbeat of the group computes a target
    without this member."""
    is_leaving = cause is EpochCause.MEMBER_LEFT
    metadata, member_id, group_id = member.metadata, member.member_id, group.group_id
    client = metadata.client_id, metadata.client_host
    left = Cause(cause.value)
    step.events.append(MemberLeft(group_id, member_id, None, *client, left, detail, silent_ms))
    name = who(member_id, metadata)
    detail = f"{name} {detail}" if is_leaving else f"{name}: {detail}"
    changes = StreamsChanges(group)
    changes.remove(member_id)
    group.changed_ms = step.now.mono_ms
    changes.bump()
    step.records.append(StreamsGroupRun(group_id, changes.records, step.now.wall_ms))
    awaited = tuple(changes.members)
    step.events.append(
        EpochBumped(group_id, changes.epoch.epoch, cause, member_id, detail, awaited)
    )


def session_due(step: Step, group: StreamsGroup, member: StreamsMember) -> None:
    silent_ms = session_timeout_ms(step.state.config, member)
    detail = f"session expired, no heartbeat for {seconds(silent_ms)}"
    fence(step, group, member, EpochCause.SESSION_EXPIRED, detail, silent_ms)


def rebalance_due(step: Step, group: StreamsGroup, member: StreamsMember) -> None:
    """Removes a member that has not given up its tasks within its rebalance timeout."""
    within = seconds(member.metadata.rebalance_timeout_ms)
    current = member.current
    what = tasks_named(
        (role, (name, partition))
        for role, tasks in (
            (Role.ACTIVE, current.revoking_active),
            (Role.STANDBY, current.revoking_standby),
            (Role.WARMUP, current.revoking_warmup),
        )
        for name, partitions in tasks.items()
        for partition in partitions
    )
    detail = f"the member did not give up the tasks {what} within {within} (max.poll.interval.ms)"
    fence(step, group, member, EpochCause.REBALANCE_TIMED_OUT, detail)
