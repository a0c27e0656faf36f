"""Handlers of SyncGroup, Heartbeat and LeaveGroup. JoinGroup is in joining.py."""

from __future__ import annotations

from coordinator.calls import Heartbeat, LeaveGroup, Leaver, SyncGroup
from coordinator.classic.group import Group
from coordinator.classic.rebalance import (
    after_removal,
    complete_if_joined,
    forget_if_blank,
    prepare,
)
from coordinator.classic.states import State
from coordinator.consumer import classic_members
from coordinator.events import Assigned, AssignedMember, Cause
from coordinator.outcome import LeaveReply, SyncReply
from coordinator.step import ShardState, Step, fits
from coordinator.wording import named, some_of, with_reason
from protocol.errors import (
    COORDINATOR_NOT_AVAILABLE,
    ILLEGAL_GENERATION,
    INCONSISTENT_GROUP_PROTOCOL,
    INVALID_GROUP_ID,
    NONE,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
    UNKNOWN_SERVER_ERROR,
)
from protocol.now import Now

# ------------------------------------------------------------------------------------- SyncGroup


def sync(step: Step, call: SyncGroup) -> None:
    """Answers or parks a SyncGroup. The leader's SyncGroup contains the assignment of every
    member."""
    group = step.state.groups.get(call.group_id)
    if group is None and call.group_id in step.state.consumer_groups:
        consumers = step.state.consumer_groups[call.group_id]
        return classic_members.sync(step, consumers, call)
    error = _check_sync(group, call)
    if error or group is None:
        return step.reply(call.ticket, SyncReply(error))
    member = group.members[call.member_id]
    step.state.connect(group, member, call.connection)
    match group.state:
        case State.AWAITING_SYNC:
            group.pending_syncs.discard(call.member_id)
            step.park_sync(group, member, call.ticket)
            if call.member_id == group.leader_id:
                _assign(step, group, call)
        case State.STABLE:
            group.pending_syncs.discard(call.member_id)
            if not group.pending_syncs:
                group.phase.disarm()
            step.arm(member.session, member.session_timeout_ms)
            reply = SyncReply(NONE, group.protocol_type, group.protocol_name, member.assignment)
            step.reply(call.ticket, reply)
        case State.PREPARING_REBALANCE:
            step.reply(call.ticket, SyncReply(REBALANCE_IN_PROGRESS))
        case State.EMPTY:
            step.reply(call.ticket, SyncReply(UNKNOWN_MEMBER_ID))
        case State.DEAD:
            step.reply(call.ticket, SyncReply(COORDINATOR_NOT_AVAILABLE))
    return None


def _check_sync(group: Group | None, call: SyncGroup) -> int:
    if group is None:
        return UNKNOWN_MEMBER_ID
    if group.state is State.DEAD:
        return COORDINATOR_NOT_AVAILABLE
    error = group.check_member(call.member_id, call.group_instance_id)
    if error:
        return error
    if call.generation_id != group.generation_id:
        return ILLEGAL_GENERATION
    if call.protocol_type is not None and call.protocol_type != group.protocol_type:
        return INCONSISTENT_GROUP_PROTOCOL
    if call.protocol_name is not None and call.protocol_name != group.protocol_name:
        return INCONSISTENT_GROUP_PROTOCOL
    return NONE


def _assign(step: Step, group: Group, call: SyncGroup) -> None:
    """Stores the leader's assignment, and answers all members that wait for the assignment.

    A member without an assignment in the request gets an empty assignment. Assignments of unknown
    member ids are ignored. If the group's record would be too large, all members get
    UNKNOWN_SERVER_ERROR and the group rebalances.
    """
    given = dict(call.assignments)
    for member in group.members.values():
        member.assignment = given.get(member.member_id, b"")
    if not fits([group.run()], step.state.config.max_record_bytes):
        for member in group.members.values():
            member.assignment = b""
            if step.answer_sync(group, member, SyncReply(UNKNOWN_SERVER_ERROR)):
                step.arm(member.session, member.session_timeout_ms)
        detail = "the group's record would exceed max.message.bytes of __consumer_offsets"
        prepare(step, group, Cause.GROUP_RECORD_TOO_LARGE, detail, call.member_id)
        return
    detail = f"assignment received from {call.member_id}"
    step.move(group, State.STABLE, Cause.ASSIGNED, detail, call.member_id)
    step.records.append(group.run())
    got = [
        AssignedMember(
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.client_host,
            each.assignment,
        )
        for each in group.members.values()
    ]
    step.events.append(
        Assigned(group.group_id, group.generation_id, group.protocol_type, tuple(got))
    )
    for member in group.members.values():
        reply = SyncReply(NONE, group.protocol_type, group.protocol_name, member.assignment)
        if step.answer_sync(group, member, reply):
            step.arm(member.session, member.session_timeout_ms)
    if not group.pending_syncs:
        group.phase.disarm()


# ------------------------------------------------------------------------------------- Heartbeat


def heartbeat(state: ShardState, call: Heartbeat, now: Now) -> int:
    """Handles a Heartbeat: extends the member's session and returns the error code."""
    group = state.groups.get(call.group_id)
    if group is None:
        consumers = state.consumer_groups.get(call.group_id)
        if consumers is not None:
            return classic_members.heartbeat(state, consumers, call, now)
        return UNKNOWN_MEMBER_ID if call.group_id else INVALID_GROUP_ID
    match group.state:
        case State.STABLE | State.AWAITING_SYNC:
            answer = NONE
        case State.PREPARING_REBALANCE:
            answer = REBALANCE_IN_PROGRESS
        case State.EMPTY:
            return UNKNOWN_MEMBER_ID
        case State.DEAD:
            return COORDINATOR_NOT_AVAILABLE
    member = group.members.get(call.member_id)
    if member is None or call.group_instance_id is not None:
        error = group.check_member(call.member_id, call.group_instance_id)
        if error or member is None:
            return error
    if call.generation_id != group.generation_id:
        return ILLEGAL_GENERATION
    if member.connection is not call.connection or member.closed_ms is not None:
        state.connect(group, member, call.connection)
    if not member.waits:
        member.session.due_ms = now.mono_ms + member.session_timeout_ms
    return answer


# ------------------------------------------------------------------------------------ LeaveGroup


def leave(step: Step, call: LeaveGroup) -> None:
    """Handles a LeaveGroup of members or of an administrator: removes all members that the request
    names in one rebalance."""
    group = step.state.groups.get(call.group_id)
    if group is None and call.group_id in step.state.consumer_groups:
        consumers = step.state.consumer_groups[call.group_id]
        return classic_members.leave(step, consumers, call)
    if group is None:
        unknown = [(m.member_id, m.group_instance_id, UNKNOWN_MEMBER_ID) for m in call.members]
        return step.reply(call.ticket, LeaveReply(NONE, unknown))
    match group.state:
        case State.DEAD:
            step.reply(call.ticket, LeaveReply(COORDINATOR_NOT_AVAILABLE))
        case State.EMPTY | State.PREPARING_REBALANCE | State.AWAITING_SYNC | State.STABLE:
            _leave(step, group, call)
    return None


def _leave(step: Step, group: Group, call: LeaveGroup) -> None:
    removed, gone = [], []
    answers = []
    for leaver in call.members:
        if leaver.member_id in group.pending:  # the instance id is not checked
            group.pending.pop(leaver.member_id).disarm()
            error = NONE
        else:
            member_id, error = _find(group, leaver)
            if not error:
                reason = with_reason("left", leaver.reason)
                member = group.members[member_id]
                step.remove(group, member, Cause.MEMBER_LEFT, reason)
                removed.append(f"{named(member)} {reason}")
                gone.append(member_id)
        answers.append((leaver.member_id, leaver.group_instance_id, error))
    step.reply(call.ticket, LeaveReply(NONE, answers))
    if removed:
        who = gone[0] if len(gone) == 1 else ""
        after_removal(step, group, Cause.MEMBER_LEFT, some_of(removed, "; "), who)
    else:
        complete_if_joined(step, group)
    forget_if_blank(step, group)


def _find(group: Group, leaver: Leaver) -> tuple[str, int]:
    """Returns the member id of the leaving member, and the error code. An administrator may name a
    member by its instance id alone."""
    if not leaver.member_id and leaver.group_instance_id is not None:
        member_id = group.static_members.get(leaver.group_instance_id)
        return ("", UNKNOWN_MEMBER_ID) if member_id is None else (member_id, NONE)
    return leaver.member_id, group.check_member(leaver.member_id, leaver.group_instance_id)
