"""Static members that rejoin (KIP-345): the old member id is fenced, the assignment is kept.

A restarted static member joins without a member id and receives a new one. If the group is stable
and the member's subscription is unchanged, only the member id changes, so a rolling restart causes
no rebalance.
"""

from __future__ import annotations

from coordinator.calls import JoinGroup
from coordinator.classic.group import Group, vote
from coordinator.classic.member import Member
from coordinator.classic.rebalance import complete_if_joined, members_for_leader, prepare
from coordinator.classic.refused_joins import refuse
from coordinator.classic.states import State
from coordinator.events import Cause, MemberJoined
from coordinator.outcome import JoinReply, SyncReply
from coordinator.step import Step, fits
from coordinator.wording import plain_host, short
from protocol.consumer_protocol import CONSUMER, subscribed_topics
from protocol.errors import (
    COORDINATOR_NOT_AVAILABLE,
    FENCED_INSTANCE_ID,
    NONE,
    UNKNOWN_MEMBER_ID,
    UNKNOWN_SERVER_ERROR,
    ProtocolError,
)


def replace(step: Step, group: Group, call: JoinGroup, old: Member, member_id: str) -> None:
    """Replaces a static member after a client joined with the same instance id. The new member gets
    the id ``member_id``."""
    new = Member(
        group.group_id,
        member_id,
        old.group_instance_id,
        call.client_id,
        call.client_host,
        call.session_timeout_ms,
        call.rebalance_timeout_ms,
        call.protocols,
        old.assignment,
    )
    new.knows_id = False
    new.is_new = old.is_new
    match group.state:
        case State.PREPARING_REBALANCE:
            _swap(step, group, old, new, call)
            _park(step, group, new, call)
        case State.AWAITING_SYNC:
            # Always rebalance: the leader assigns partitions to the old id (KAFKA-9801).
            _swap(step, group, old, new, call)
            _rebalance(step, group, new, call, "rejoined before it received its assignment")
        case State.STABLE:
            why = _why_rebalance(group, old, new)
            if why is not None:
                _swap(step, group, old, new, call)
                _rebalance(step, group, new, call, why)
            elif fits([group.run(old, new)], step.state.config.max_record_bytes):
                _keep_generation(step, group, call, old, new)
            else:
                refuse(step, group, call, UNKNOWN_SERVER_ERROR)
        case State.EMPTY:
            refuse(step, group, call, UNKNOWN_MEMBER_ID)
        case State.DEAD:
            refuse(step, group, call, COORDINATOR_NOT_AVAILABLE)


def _swap(step: Step, group: Group, old: Member, new: Member, call: JoinGroup) -> None:
    """Replaces ``old`` by ``new``, and fences ``old``, whatever the state of the group
    (KAFKA-8500): a request that is parked under the old member id gets FENCED_INSTANCE_ID."""
    step.answer_join(group, old, JoinReply(FENCED_INSTANCE_ID, old.member_id))
    step.answer_sync(group, old, SyncReply(FENCED_INSTANCE_ID))
    group.replace(old, new)
    lived = old.connection is not None and call.connection not in (None, old.connection)
    step.state.disconnect(old)
    step.state.connect(group, new, call.connection)
    detail = (
        f"{new.client_id} at {plain_host(new.client_host)} took over {old.group_instance_id}"
        f" from {old.client_id} at {plain_host(old.client_host)}"
    )
    step.emit_left(group, old, Cause.STATIC_MEMBER_REPLACED, detail)
    step.events.append(
        MemberJoined(
            group.group_id,
            new.member_id,
            new.group_instance_id,
            new.client_id,
            new.client_host,
            short(call.reason),
            old.member_id,
            (old.client_id, old.client_host) if lived else None,
            -1 if old.closed_ms is None else max(0, step.now.mono_ms - old.closed_ms),
        )
    )


def _park(step: Step, group: Group, new: Member, call: JoinGroup) -> None:
    step.park_join(group, new, call.ticket)
    complete_if_joined(step, group)


def _rebalance(step: Step, group: Group, new: Member, call: JoinGroup, why: str) -> None:
    detail = f"static member {new.group_instance_id} from {plain_host(new.client_host)} {why}"
    prepare(step, group, Cause.STATIC_MEMBER_REPLACED, detail, new.member_id)
    _park(step, group, new, call)


def _why_rebalance(group: Group, old: Member, new: Member) -> str | None:
    """Returns the reason why a stable group must rebalance when this static member rejoins; None if
    the group need not rebalance.

    Kafka compares only the protocol that the next vote would select. Muster also compares the
    subscribed topics. Otherwise a member that subscribes to other topics would keep the assignment
    of its old topics.
    """
    offers = [(new if m is old else m).protocols for m in group.members.values()]
    if vote(offers) != group.protocol_name:
        protocol = f"from {group.protocol_name} to {vote(offers)}"
        return f"rejoined, which changes the group's protocol {protocol}"
    if group.protocol_type == CONSUMER and _topics(old, group) != _topics(new, group):
        return "rejoined with a changed subscription"
    return None


def _topics(member: Member, group: Group) -> set[str] | bytes:
    metadata = member.metadata(group.protocol_name)
    try:
        return set(subscribed_topics(metadata))
    except ProtocolError:
        return metadata


def _keep_generation(step: Step, group: Group, call: JoinGroup, old: Member, new: Member) -> None:
    """Replies to a static member that rejoins, and rewrites the group's record without a rebalance.
    The member then gets its assignment by SyncGroup.

    If the member is the leader, the reply must prevent it from computing an assignment. From v9 on,
    the reply contains the field skip_assignment (KIP-814). Below v9, the reply names the member's
    old member id as the leader, so the member does not know that it is the leader.
    """
    old_leader = group.leader_id or ""
    _swap(step, group, old, new, call)
    step.arm(new.session, new.session_timeout_ms)
    step.records.append(group.run())
    leads = group.leader_id == new.member_id
    reply = JoinReply(
        NONE,
        new.member_id,
        group.generation_id,
        group.protocol_type,
        group.protocol_name,
        old_leader,
    )
    if call.supports_skip_assignment:
        reply.leader = group.leader_id or ""
        reply.skip_assignment = leads
        if leads:
            reply.members = members_for_leader(group)
    new.knows_id = True
    step.reply(call.ticket, reply)
