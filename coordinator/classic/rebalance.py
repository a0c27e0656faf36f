"""Rebalances: the beginning and end of a join phase, and the deadlines of phases.

A caller that removes members calls ``after_removal`` afterwards. A caller that adds members, or
accepts members that rejoin, calls ``prepare`` and ``complete_if_joined`` afterwards. The shard
calls ``phase_due`` when a phase timer is due.
"""

from __future__ import annotations

from coordinator.classic.group import Group
from coordinator.classic.states import State
from coordinator.events import Cause, GenerationFormed
from coordinator.outcome import JoinedMember, JoinReply, SyncReply
from coordinator.step import Step
from coordinator.wording import named, some_of
from protocol.errors import NONE, REBALANCE_IN_PROGRESS

_LEAST_REPEAT_MS = 1000
"""A join phase is repeated if no member has joined when it ends. This is the minimum timeout in ms
of the repeated phase; it applies if all rebalance timeouts are shorter, 0 or negative. The repeated
phase ends earlier if a member rejoins or expires."""


def prepare(step: Step, group: Group, cause: Cause, detail: str, member_id: str = "") -> None:
    """Begins a rebalance, unless the group is already in PREPARING_REBALANCE."""
    match group.state:
        case State.EMPTY:
            _begin_initial_delay(step, group)
        case State.AWAITING_SYNC:
            _begin_join_phase(step, group, 0)
            for member in group.members.values():
                if step.answer_sync(group, member, SyncReply(REBALANCE_IN_PROGRESS)):
                    step.arm(member.session, member.session_timeout_ms)
        case State.STABLE:
            joins = cause is Cause.MEMBER_JOINED
            _begin_join_phase(step, group, step.state.config.join_coalescing_ms if joins else 0)
        case State.PREPARING_REBALANCE:
            return
        case State.DEAD:
            raise AssertionError(f"group {group.group_id!r} is dead and cannot rebalance")
    step.move(group, State.PREPARING_REBALANCE, cause, detail, member_id)


def _begin_join_phase(step: Step, group: Group, hold_ms: int) -> None:
    """Begins a join phase. The phase ends when all members have joined, but not before ``hold_ms``
    have passed, so that more members can join."""
    group.pending_syncs.clear()
    group.initial_delay = False
    timeout_ms = group.rebalance_timeout_ms()
    hold_ms = min(hold_ms, timeout_ms)
    group.holding = hold_ms > 0
    group.join_deadline_ms = step.now.mono_ms + timeout_ms
    step.arm(group.phase, hold_ms or timeout_ms)


def _begin_initial_delay(step: Step, group: Group) -> None:
    """Begins the initial delay, in which the group waits for more members: the first members of a
    group usually join together (KIP-134)."""
    delay_ms = step.state.config.initial_rebalance_delay_ms
    group.initial_delay = True
    group.member_added = False
    group.delay_step_ms = delay_ms
    group.delay_remaining_ms = max(group.rebalance_timeout_ms() - delay_ms, 0)
    step.arm(group.phase, delay_ms)


def complete_if_joined(step: Step, group: Group) -> None:
    """Ends the join phase if all members have joined.

    During the initial delay, the phase ends only when the delay is over; a delay of 0 is over
    immediately. During a wait of group.join.coalescing.ms, the phase ends only when the wait is
    over, or when the group has no members any more.
    """
    if group.state is not State.PREPARING_REBALANCE:
        return
    if group.initial_delay:
        if group.delay_step_ms == 0:
            complete(step, group, Cause.ALL_JOINED)
    elif group.all_joined() and not (group.holding and group.members):
        complete(step, group, Cause.ALL_JOINED)


def after_removal(step: Step, group: Group, cause: Cause, detail: str, member_id: str = "") -> None:
    """Begins a rebalance because members were removed. If a join phase is in progress, ends the
    phase if all remaining members have joined."""
    match group.state:
        case State.AWAITING_SYNC | State.STABLE:
            prepare(step, group, cause, detail, member_id)
            complete_if_joined(step, group)
        case State.PREPARING_REBALANCE:
            complete_if_joined(step, group)
        case State.EMPTY | State.DEAD:
            pass


def forget_if_blank(step: Step, group: Group) -> None:
    """Removes a group that never had a member or an offset. Such a group was created when a client
    got a member id, but no client has joined with this id."""
    if group.is_blank() and not step.state.cache.has_offsets(group.group_id):
        del step.state.groups[group.group_id]


# ------------------------------------------------------------------------------------- deadlines


def phase_due(step: Step, group: Group) -> None:
    match group.state:
        case State.PREPARING_REBALANCE:
            if group.initial_delay:
                _delay_step_over(step, group)
            elif group.holding:
                _hold_over(step, group)
            else:
                complete(step, group, Cause.JOIN_TIMED_OUT)
        case State.AWAITING_SYNC | State.STABLE:
            _sync_phase_over(step, group)
        case State.EMPTY | State.DEAD:
            raise AssertionError(
                f"group {group.group_id!r} must not have a deadline in state {group.state}"
            )


def _delay_step_over(step: Step, group: Group) -> None:
    """Handles the end of a step of the initial delay. If a member joined during this step, another
    step follows, at most up to the rebalance timeout. Otherwise the join phase ends."""
    if group.member_added and group.delay_remaining_ms:
        group.member_added = False
        past_ms = group.delay_step_ms
        group.delay_step_ms = min(
            step.state.config.initial_rebalance_delay_ms, group.delay_remaining_ms
        )
        group.delay_remaining_ms = max(group.delay_remaining_ms - past_ms, 0)
        step.arm(group.phase, group.delay_step_ms)
    else:
        complete(step, group, Cause.INITIAL_DELAY_ENDED)


def _hold_over(step: Step, group: Group) -> None:
    """Called when group.join.coalescing.ms have passed in the join phase. Ends the phase if all
    members have joined, or if its deadline has passed. Otherwise the phase continues, at most to
    its deadline."""
    group.holding = False
    if group.all_joined():
        complete(step, group, Cause.ALL_JOINED)
    elif group.join_deadline_ms > step.now.mono_ms:
        step.arm(group.phase, group.join_deadline_ms - step.now.mono_ms)
    else:
        complete(step, group, Cause.JOIN_TIMED_OUT)


def _sync_phase_over(step: Step, group: Group) -> None:
    """Removes the members that joined this generation but sent no SyncGroup before the deadline."""
    late = [group.members[name] for name in group.members if name in group.pending_syncs]
    assert late, f"group {group.group_id!r} has a sync deadline but no awaited members"
    detail = f"sent no SyncGroup for generation {group.generation_id} in time"
    names = some_of([named(member) for member in late], ", ")
    for member in late:
        step.remove(group, member, Cause.SYNC_TIMED_OUT, detail)
    after_removal(step, group, Cause.SYNC_TIMED_OUT, f"{names} {detail}", late[0].member_id)


# --------------------------------------------------------------------------- end of a join phase


def complete(step: Step, group: Group, cause: Cause) -> None:
    """Ends the join phase with the members that have joined.

    Dynamic members that have not joined are removed. Static members stay until their session
    expires, so that they keep their partitions during a restart. If no member has joined and all
    members are static, the phase is extended.
    """
    late = [
        member
        for member in group.members.values()
        if member.join_ticket is None and member.group_instance_id is None
    ]
    for member in late:
        step.remove(group, member, Cause.JOIN_TIMED_OUT, "did not rejoin in time")
    if not group.members:
        _become_empty(step, group)
    elif not group.joined:
        group.initial_delay = group.holding = False
        step.arm(group.phase, max(group.rebalance_timeout_ms(), _LEAST_REPEAT_MS))
    else:
        _form_generation(step, group, cause)


def _become_empty(step: Step, group: Group) -> None:
    group.phase.disarm()
    group.initial_delay = group.holding = False
    group.next_generation()
    step.move(group, State.EMPTY, Cause.NOBODY_LEFT, "no member is left")
    step.records.append(group.run())


def _form_generation(step: Step, group: Group, cause: Cause) -> None:
    join_ms = step.now.mono_ms - group.state_since_ms
    group.next_generation()
    group.initial_delay = group.holding = False
    group.pending_syncs.update(
        member.member_id for member in group.members.values() if member.join_ticket is not None
    )
    step.arm(group.phase, group.rebalance_timeout_ms())
    detail = f"{group.joined} of {len(group.members)} members joined"
    step.move(group, State.AWAITING_SYNC, cause, detail)
    for member in group.members.values():
        if member.join_ticket is None:
            continue  # an absent static member: the session continues
        member.is_new = False
        step.answer_join(group, member, join_reply(group, member.member_id))
        step.arm(member.session, member.session_timeout_ms)
    step.events.append(
        GenerationFormed(
            group.group_id,
            group.generation_id,
            group.protocol_name,
            group.leader_id,
            len(group.members),
            join_ms,
            group.last_joined_id,
            group.last_wait_ms,
        )
    )


def join_reply(group: Group, member_id: str) -> JoinReply:
    """Returns the JoinGroup reply for a member of the current generation. Only the leader's reply
    lists all members."""
    reply = JoinReply(
        NONE,
        member_id,
        group.generation_id,
        group.protocol_type,
        group.protocol_name,
        group.leader_id or "",
    )
    if member_id == group.leader_id:
        reply.members = members_for_leader(group)
    return reply


def members_for_leader(group: Group) -> list[JoinedMember]:
    name = group.protocol_name
    return [
        JoinedMember(member.member_id, member.group_instance_id, member.metadata(name))
        for member in group.members.values()
    ]
