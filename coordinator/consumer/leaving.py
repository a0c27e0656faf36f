"""Removes members of consumer groups: members that leave, and members that the coordinator fences.
Source: Kafka 4.3.1 ``GroupMetadataManager.consumerGroupLeave``, ``consumerGroupFenceMembers``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from coordinator.calls import ConsumerHeartbeat
from coordinator.consumer.changes import Changes
from coordinator.consumer.downgrade import downgrade, may_downgrade, remaining
from coordinator.consumer.events import EpochBumped, EpochCause, MemberReconciled
from coordinator.consumer.group import (
    STATIC_LEAVING_EPOCH,
    ConsumerGroup,
    ConsumerMember,
    session_timeout_ms,
)
from coordinator.consumer.refused import Refused
from coordinator.consumer.wording import partitions_named, who
from coordinator.events import Cause, MemberLeft
from coordinator.outcome import ConsumerHeartbeatReply
from coordinator.step import Step
from coordinator.wording import seconds
from offsets.consumer_records import ConsumerGroupRun, CurrentRecord
from protocol.errors import FENCED_INSTANCE_ID, GROUP_ID_NOT_FOUND, NONE, UNKNOWN_MEMBER_ID


def leave(step: Step, call: ConsumerHeartbeat) -> Refused | None:
    """Handles a heartbeat by which a member leaves: with epoch -1, or temporarily with epoch -2."""
    group = step.state.consumer_groups.get(call.group_id)
    if group is None:
        text = f"Consumer group {call.group_id} not found."
        if step.state.has_group(call.group_id) and call.group_id not in step.state.groups:
            text = f"Group {call.group_id} is not a consumer group."
        return Refused(GROUP_ID_NOT_FOUND, text)
    member = group.members.get(call.member_id)
    if call.instance_id is not None:
        holder_id = group.static_members.get(call.instance_id)
        if holder_id is None:
            return Refused(UNKNOWN_MEMBER_ID, f"Instance id {call.instance_id} is unknown.")
        if holder_id != call.member_id:
            text = (
                f"Static member {call.member_id} with instance id {call.instance_id} was fenced"
                f" by member {holder_id}."
            )
            return Refused(FENCED_INSTANCE_ID, text)
    if member is None:
        text = f"Member {call.member_id} is not a member of group {call.group_id}."
        return Refused(UNKNOWN_MEMBER_ID, text)
    if call.member_epoch == STATIC_LEAVING_EPOCH:
        leave_for_a_while(step, group, member)
    else:
        fence(step, group, [member], EpochCause.MEMBER_LEFT, "left")
    step.reply(
        call.ticket, ConsumerHeartbeatReply(NONE, None, call.member_id, call.member_epoch, 0, None)
    )
    return None


def leave_for_a_while(step: Step, group: ConsumerGroup, member: ConsumerMember) -> None:
    """Handles a static member that leaves temporarily. The member keeps its partitions until its
    session expires."""
    before = member.current
    assigned = {topic: dict.fromkeys(epochs, 0) for topic, epochs in before.assigned.items()}
    after = replace(before, epoch=STATIC_LEAVING_EPOCH, assigned=assigned, revoking={})
    member.rebalance.disarm()
    records = [CurrentRecord(member.member_id, after)]
    step.records.append(ConsumerGroupRun(group.group_id, records))
    step.events.append(MemberReconciled(group.group_id, member.member_id, before, after))


def fence(
    step: Step,
    group: ConsumerGroup,
    members: Sequence[ConsumerMember],
    cause: EpochCause,
    detail: str,
    silent_ms: int = -1,
) -> None:
    """Removes members and raises the epoch. The next heartbeat of the group computes a target
    without these members."""
    left = {
        EpochCause.MEMBER_LEFT: Cause.MEMBER_LEFT,
        EpochCause.SESSION_EXPIRED: Cause.SESSION_EXPIRED,
        EpochCause.REBALANCE_TIMED_OUT: Cause.REBALANCE_TIMED_OUT,
    }[cause]
    for member in members:
        metadata = member.metadata
        step.events.append(
            MemberLeft(
                group.group_id,
                member.member_id,
                metadata.instance_id,
                metadata.client_id,
                metadata.client_host,
                left,
                detail,
                silent_ms,
            )
        )
    first = members[0].member_id
    name = who(first, members[0].metadata)
    detail = f"{name} {detail}" if cause is EpochCause.MEMBER_LEFT else f"{name}: {detail}"
    gone = {member.member_id for member in members}
    if may_downgrade(step, group, gone, len(group.members) - len(gone)):
        why = "the last member with group.protocol=consumer left"
        if downgrade(step, group, remaining(group, gone), why, (left, detail)) is not None:
            return
    changes = Changes(group)
    changes.remove([member.member_id for member in members])
    changes.drop_unused_regexes()
    group.changed_ms = step.now.mono_ms
    changes.bump(step.state.topics.metadata_hash(changes.names()))
    step.records.append(ConsumerGroupRun(group.group_id, changes.records, step.now.wall_ms))
    awaited = changes.awaited()
    step.events.append(
        EpochBumped(group.group_id, changes.epoch.epoch, cause, first, detail, awaited)
    )


def session_due(step: Step, group: ConsumerGroup, member: ConsumerMember) -> None:
    silent_ms = session_timeout_ms(step.state.config, member)
    detail = f"session expired, no heartbeat for {seconds(silent_ms)}"
    fence(step, group, [member], EpochCause.SESSION_EXPIRED, detail, silent_ms)


def rebalance_due(step: Step, group: ConsumerGroup, member: ConsumerMember) -> None:
    """Removes a member that has not given up its partitions within its rebalance timeout."""
    within = seconds(member.metadata.rebalance_timeout_ms)
    if member.metadata.classic is not None:
        detail = f"the member did not rejoin within {within} (its rebalance timeout)"
        fence(step, group, [member], EpochCause.REBALANCE_TIMED_OUT, detail)
        return
    what = partitions_named(member.current.revoking, step.state.topics)
    detail = f"the member did not give up {what} within {within} (max.poll.interval.ms)"
    fence(step, group, [member], EpochCause.REBALANCE_TIMED_OUT, detail)
