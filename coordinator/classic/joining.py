"""JoinGroup: accepts members, creates member ids, and answers or parks the request.

The order of the checks is Kafka's: group id, bounds of the session timeout, existence of the group,
capacity, state DEAD, protocols, then instance id and member id.
"""

from __future__ import annotations

from collections.abc import Hashable

from coordinator.calls import JoinGroup
from coordinator.classic.group import Group
from coordinator.classic.member import Member
from coordinator.classic.rebalance import (
    after_removal,
    complete_if_joined,
    forget_if_blank,
    join_reply,
    prepare,
)
from coordinator.classic.refused_joins import refuse
from coordinator.classic.states import State
from coordinator.classic.static_members import replace
from coordinator.consumer import classic_members
from coordinator.consumer.group import ConsumerGroup
from coordinator.events import Cause, MemberChanged, MemberJoined
from coordinator.outcome import JoinReply
from coordinator.removal import tombstones
from coordinator.step import Step
from coordinator.timers import GroupTimer
from coordinator.wording import change_of, named, seconds, short, with_reason
from protocol.errors import (
    COORDINATOR_NOT_AVAILABLE,
    GROUP_MAX_SIZE_REACHED,
    INCONSISTENT_GROUP_PROTOCOL,
    INVALID_SESSION_TIMEOUT,
    MEMBER_ID_REQUIRED,
    UNKNOWN_MEMBER_ID,
    UNSUPPORTED_VERSION,
)

PENDING_IDS_MAX = 10_000
"""The maximum number of new member ids of one group with which no client has joined yet. Above this
number the oldest id is withdrawn, as if its timeout had passed. A client that joins with a
withdrawn id gets UNKNOWN_MEMBER_ID and requests another id."""
_ID_PREFIX_CHARACTERS = 4000
"""A new member id begins with the client id or the instance id, cut to this number of characters.
The member id is then shorter than 32767 bytes, the limit of a Kafka string."""


def join(step: Step, call: JoinGroup) -> None:
    config = step.state.config
    if call.group_instance_id is not None and not config.static_members:
        return refuse(step, None, call, UNSUPPORTED_VERSION)
    if not (
        config.min_session_timeout_ms <= call.session_timeout_ms <= config.max_session_timeout_ms
    ):
        return refuse(step, None, call, INVALID_SESSION_TIMEOUT)
    group = step.state.groups.get(call.group_id)
    is_first = group is None
    committing = step.state.committing_group(call.group_id) if is_first else None
    consumers = committing if isinstance(committing, ConsumerGroup) else None
    if consumers is not None and consumers.members:
        group = classic_members.join(step, consumers, call)
        if group is None:
            return None
        is_first = False
    if group is None:
        if call.group_id in step.state.share_groups or (
            consumers is None and committing is not None and committing.members
        ):
            return refuse(step, None, call, INCONSISTENT_GROUP_PROTOCOL)
        if call.member_id:
            return refuse(step, None, call, UNKNOWN_MEMBER_ID)
        group = Group(call.group_id, step.now)
    if len(group.members) >= config.max_size and not _has_room(step, group, call):
        return _refuse_for_size(step, group, call)
    if group.state is State.DEAD:
        return refuse(step, group, call, COORDINATOR_NOT_AVAILABLE)
    if not group.accepts(call.protocol_type, call.protocols):
        return refuse(step, group, call, INCONSISTENT_GROUP_PROTOCOL)
    if is_first:
        step.state.groups[call.group_id] = group
        if committing is not None:
            step.records.append(tombstones(committing))
    if not call.member_id:
        return _join_unnamed(step, group, call)
    if call.member_id in group.pending and call.group_instance_id is None:
        group.pending.pop(call.member_id).disarm()
        return _add(step, group, call, call.member_id, knows_id=True)
    error = group.check_member(call.member_id, call.group_instance_id)
    if error:
        return refuse(step, group, call, error)
    _rejoin(step, group, call, group.members[call.member_id])
    return None


# -------------------------------------------------------------------------------------- capacity


def _has_room(step: Step, group: Group, call: JoinGroup) -> bool:
    """Returns True if the group's maximum size permits this JoinGroup.

    In STABLE and AWAITING_SYNC, only existing members may join; a static member may have a new
    member id. In PREPARING_REBALANCE, only members with a parked JoinGroup count towards the size.
    So if the group is too large, the last members to rejoin are rejected (KAFKA-9885).
    """
    member = group.members.get(call.member_id or _static_id(group, call.group_instance_id))
    match group.state:
        case State.EMPTY | State.DEAD:
            return True
        case State.PREPARING_REBALANCE:
            is_parked = member is not None and member.join_ticket is not None
            return is_parked or group.joined < step.state.config.max_size
        case State.AWAITING_SYNC | State.STABLE:
            return member is not None


def _static_id(group: Group, group_instance_id: str | None) -> str:
    return "" if group_instance_id is None else group.static_members.get(group_instance_id, "")


def _refuse_for_size(step: Step, group: Group, call: JoinGroup) -> None:
    """Rejects a JoinGroup with GROUP_MAX_SIZE_REACHED. Also removes the sender: the member, or the
    pending member id of a client that has not joined yet."""
    refuse(step, group, call, GROUP_MAX_SIZE_REACHED)
    pending = group.pending.pop(call.member_id, None)
    if pending is not None:
        pending.disarm()
        complete_if_joined(step, group)
    elif not group.check_member(call.member_id, call.group_instance_id):
        detail = f"group.max.size is {step.state.config.max_size}"
        step.remove(group, group.members[call.member_id], Cause.OVER_MAX_SIZE, detail)
        after_removal(step, group, Cause.OVER_MAX_SIZE, detail, call.member_id)


# ------------------------------------------------------------------------------------ new members


def _join_unnamed(step: Step, group: Group, call: JoinGroup) -> None:
    """Handles a JoinGroup without a member id. The client is a new member, or a static member that
    rejoins."""
    instance_id = call.group_instance_id
    prefix = call.client_id if instance_id is None else instance_id
    member_id = f"{prefix[:_ID_PREFIX_CHARACTERS]}-{call.fresh_id}"
    if instance_id is not None:
        old_id = group.static_members.get(instance_id)
        if old_id is not None:
            return replace(step, group, call, group.members[old_id], member_id)
    elif call.member_id_required:
        if len(group.pending) >= PENDING_IDS_MAX:
            group.pending.pop(next(iter(group.pending))).disarm()
        timer = group.pending[member_id] = GroupTimer(group.group_id, member_id)
        step.arm(timer, call.session_timeout_ms)
        return step.reply(call.ticket, JoinReply(MEMBER_ID_REQUIRED, member_id))
    return _add(step, group, call, member_id, knows_id=False)


def _add(step: Step, group: Group, call: JoinGroup, member_id: str, *, knows_id: bool) -> None:
    member = Member(
        group.group_id,
        member_id,
        call.group_instance_id,
        call.client_id,
        call.client_host,
        call.session_timeout_ms,
        call.rebalance_timeout_ms,
        call.protocols,
    )
    member.is_new = True
    member.knows_id = knows_id
    if not group.members:
        group.protocol_type = call.protocol_type
    group.add(member)
    step.state.connect(group, member, call.connection)
    if group.state is State.PREPARING_REBALANCE and group.initial_delay:
        group.member_added = True
    step.events.append(
        MemberJoined(
            group.group_id,
            member_id,
            call.group_instance_id,
            call.client_id,
            call.client_host,
            short(call.reason),
        )
    )
    detail = with_reason(f"{named(member)} joined", call.reason)
    prepare(step, group, Cause.MEMBER_JOINED, detail, member_id)
    step.park_join(group, member, call.ticket)
    complete_if_joined(step, group)


# ---------------------------------------------------------------------------------- known members


def _rejoin(step: Step, group: Group, call: JoinGroup, member: Member) -> None:
    step.state.connect(group, member, call.connection)
    match group.state:
        case State.PREPARING_REBALANCE:
            member.session_timeout_ms = call.session_timeout_ms
            member.rebalance_timeout_ms = call.rebalance_timeout_ms
            _update_and_park(step, group, call, member)
        case State.AWAITING_SYNC:
            if member.offers(call.protocols):
                step.reply(call.ticket, join_reply(group, member.member_id))
            else:
                _rebalance_for(step, group, call, member)
        case State.STABLE:
            if member.member_id == group.leader_id or not member.offers(call.protocols):
                _rebalance_for(step, group, call, member)
            else:
                step.reply(call.ticket, join_reply(group, member.member_id))
        case State.EMPTY:
            refuse(step, group, call, UNKNOWN_MEMBER_ID)
        case State.DEAD:
            refuse(step, group, call, COORDINATOR_NOT_AVAILABLE)


def _rebalance_for(step: Step, group: Group, call: JoinGroup, member: Member) -> None:
    """Begins a rebalance because a member rejoined, and reports the cause."""
    since_ms = step.now.mono_ms - group.state_since_ms
    change = change_of(group.protocol_type, member, call.protocols)
    leads = member.member_id == group.leader_id
    who = f"{named(member)}, the leader," if leads else named(member)
    if member.restored and change is None and since_ms <= max(member.session_timeout_ms, 0):
        cause = Cause.COORDINATOR_RESTARTED
        what = f"{who} rejoined {seconds(since_ms)} after the coordinator restarted"
    elif leads:
        cause = Cause.LEADER_REJOINED
        what = f"{who} rejoined"
        if change is not None:
            what = f"{what} and {change.detail}"
    else:
        cause = Cause.METADATA_CHANGED
        detail = (
            "rejoined with protocols that the group's log does not contain"
            if change is None
            else change.detail
        )
        what = f"{who} {detail}"
    # Set the timeouts before ``prepare``, which computes the length of the join phase from them.
    member.session_timeout_ms = call.session_timeout_ms
    member.rebalance_timeout_ms = call.rebalance_timeout_ms
    prepare(step, group, cause, with_reason(what, call.reason), member.member_id)
    _update_and_park(step, group, call, member)


def _update_and_park(step: Step, group: Group, call: JoinGroup, member: Member) -> None:
    if not member.offers(call.protocols):
        change = change_of(group.protocol_type, member, call.protocols)
        if change is not None and change.is_visible:
            step.events.append(
                MemberChanged(
                    group.group_id,
                    member.member_id,
                    call.client_id,
                    call.client_host,
                    change.detail,
                )
            )
    group.set_protocols(member, call.protocols)
    member.knows_id = True
    step.park_join(group, member, call.ticket)
    complete_if_joined(step, group)


# ------------------------------------------------------------------------------------- deadlines


def pending_due(step: Step, group: Group, member_id: str) -> None:
    """Called at the end of the timeout of a new member id with which no client has joined. Removes
    the member id."""
    del group.pending[member_id]
    complete_if_joined(step, group)
    forget_if_blank(step, group)


def session_due(step: Step, group: Group, member: Member) -> None:
    """Removes a member because its session expired or because its first JoinGroup was parked too
    long. In the second case, the client may have closed the connection and joined again under
    another member id (KAFKA-7610)."""
    if member.waits:
        assert member.is_new, (
            f"the session of {member.member_id!r} ran while a request of the member was parked"
        )
        cause = Cause.NEW_MEMBER_TIMED_OUT
        waited_ms = step.state.config.new_member_join_timeout_ms
        what = f"the coordinator did not answer its first JoinGroup within {seconds(waited_ms)}"
        detail = f"{named(member)} was removed: {what}"
        silent_ms = -1
    else:
        cause = Cause.SESSION_EXPIRED
        late_ms = step.now.mono_ms - member.session.fell_due_ms
        silent_ms = max(member.session_timeout_ms, 0) + late_ms
        expired = f"session of {named(member)} expired after {seconds(silent_ms)}"
        closed = ""
        if member.closed_ms is not None:  # the session may have begun after the close
            closed_ms = step.now.mono_ms - member.closed_ms
            closed = f"; its connection had closed {seconds(closed_ms)} earlier"
            if closed_ms > silent_ms:
                closed += "; the session timeout did not run while a request of the member waited"
            silent_ms = max(silent_ms, closed_ms)
        what = f"session expired, no heartbeat for {seconds(silent_ms)}{closed}"
        detail = f"{expired}{closed}"
    step.remove(group, member, cause, what, silent_ms)
    after_removal(step, group, cause, detail, member.member_id)


def connection_closed(step: Step, connection: Hashable) -> None:
    """Notes the close of ``connection`` for each member that uses it. Parked requests stay parked,
    as in Kafka.

    A member whose client has not received its member id can't return. Such a member is removed
    immediately, so that rebalances do not wait for it. A static member that is not new is an
    exception, because its instance id identifies it when it rejoins. All other members may return
    until their session ends.
    """
    for member, group in step.state.connections.pop(connection, {}).items():
        member.connection = None
        member.closed_ms = step.now.mono_ms
        if member.knows_id or (member.group_instance_id is not None and not member.is_new):
            continue
        detail = "disconnected before it received its member id"
        step.remove(group, member, Cause.DISCONNECTED, detail)
        what = f"{named(member)} {detail}"
        after_removal(step, group, Cause.DISCONNECTED, what, member.member_id)
