"""StreamsGroupHeartbeat of a member that joins or stays. The heartbeat of a member that leaves is
in leaving.py. The checks that need only the request are in malformed.py.

Every request is answered immediately. The reply has the statuses of the group: problems of its
topology or topics. A status is not an error. Source: KIP-1071; Kafka 4.3.1
``GroupMetadataManager.streamsGroupHeartbeat``.
"""

from __future__ import annotations

from typing import NamedTuple

from coordinator.classic.states import State
from coordinator.consumer.events import HeartbeatRefused
from coordinator.consumer.refused import Refused
from coordinator.events import JoinRefused
from coordinator.outcome import StreamsHeartbeatReply
from coordinator.step import ShardState, Step, idle_or_stepped
from coordinator.streams.advance import Statuses, advance
from coordinator.streams.answer import answer
from coordinator.streams.calls import StreamsHeartbeat
from coordinator.streams.changes import assignment_configs
from coordinator.streams.group import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    NO_METADATA,
    StreamsGroup,
    StreamsMember,
)
from coordinator.streams.leaving import leave, request_shutdown
from coordinator.streams.malformed import malformed
from coordinator.streams.states import STABLE, StatusCode
from offsets.streams_records import StreamsCurrentAssignment, StreamsMemberMetadata
from protocol.errors import (
    FENCED_MEMBER_EPOCH,
    GROUP_ID_NOT_FOUND,
    GROUP_MAX_SIZE_REACHED,
    NONE,
    UNKNOWN_MEMBER_ID,
)
from protocol.now import Now


class _Admitted(NamedTuple):
    """A request that has passed all checks of the group, the member and the epoch."""

    group: StreamsGroup
    member: StreamsMember | None
    """The member that sent the request; None if the sender joins."""
    is_new_group: bool


def idle_heartbeat(
    state: ShardState, call: StreamsHeartbeat, now: Now
) -> StreamsHeartbeatReply | None:
    """Returns the reply to a heartbeat if the heartbeat reports no change and the reply contains no
    change for the member. Otherwise returns None."""
    epoch = call.member_epoch
    group = state.streams_groups.get(call.group_id)
    member = None if group is None else group.members.get(call.member_id)
    if group is None or member is None or not call.reports_no_change:
        return None
    current, metadata = member.current, member.metadata
    settings = state.config.of_streams_group(call.group_id)
    if (
        epoch <= 0
        or epoch != current.epoch
        or current.state != STABLE
        or epoch != group.target_epoch.epoch
        or epoch != group.epoch.epoch
        or group.refresh_wanted
        or group.configured is None
        or group.configured.status
        or group.shutdown_by is not None
        or group.is_delayed
        or group.endpoint_epoch != call.endpoint_epoch
        or call.client_id != metadata.client_id
        or call.client_host != metadata.client_host
        or _has_stale_topology(group, metadata)
        or group.epoch.last_assignment_configs != assignment_configs(settings)
    ):
        return None
    member.session.due_ms = now.mono_ms + settings.session_timeout_ms
    interval_ms, reply = settings.heartbeat_interval_ms, member.idle_reply
    if (
        reply is None
        or reply.member_epoch != epoch
        or reply.heartbeat_interval_ms != interval_ms
        or reply.endpoint_epoch != group.endpoint_epoch
    ):
        reply = StreamsHeartbeatReply(
            NONE, None, call.member_id, epoch, interval_ms, endpoint_epoch=group.endpoint_epoch
        )
        member.idle_reply = reply
    return reply


def heartbeat(step: Step, call: StreamsHeartbeat) -> None:
    refused = malformed(call)
    if refused is None:
        refused = leave(step, call) if call.member_epoch == LEAVING_EPOCH else _stay(step, call)
    if refused is not None:
        names = call.group_id, call.member_id
        client = call.client_id, call.client_host
        error_code, text = refused
        if call.member_epoch == JOINING_EPOCH:
            step.events.append(JoinRefused(*names, error_code, *client, text))
        else:
            step.events.append(HeartbeatRefused(*names, *client, error_code, text))
        step.reply(call.ticket, StreamsHeartbeatReply(*refused))


def _admit(step: Step, call: StreamsHeartbeat) -> _Admitted | Refused:
    """Finds the group and the member of a heartbeat. Makes the same checks as Kafka, in the same
    order."""
    state, group_id, member_id = step.state, call.group_id, call.member_id
    is_joining = call.member_epoch == JOINING_EPOCH
    group = state.streams_groups.get(group_id)
    is_new = group is None
    if group is None:
        classic = state.groups.get(group_id)
        may_convert = classic is not None and classic.state is State.EMPTY
        if state.has_group(group_id) and not (is_joining and may_convert):
            return Refused(GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")
        if not is_joining:
            return Refused(GROUP_ID_NOT_FOUND, f"Streams group {group_id} not found.")
        group = StreamsGroup(group_id)
    most = state.config.streams_max_size
    if is_joining and len(group.members) >= most:  # in Kafka, known members are refused too
        text = f"The streams group has reached its maximum capacity of {most} members."
        return Refused(GROUP_MAX_SIZE_REACHED, text)
    member = group.members.get(member_id)
    if member is None and not is_joining:
        text = f"Member {member_id} is not a member of group {group_id}."
        return Refused(UNKNOWN_MEMBER_ID, text)
    refused = None if member is None else _check_epoch(member.current, call)
    return refused or _Admitted(group, member, is_new)


def _check_epoch(current: StreamsCurrentAssignment, call: StreamsHeartbeat) -> Refused | None:
    """Returns FENCED_MEMBER_EPOCH if the epoch of the heartbeat is wrong, else None.

    A member whose last response was lost sends its previous epoch. This epoch is accepted if the
    member lists only tasks that are assigned to it.
    """
    epoch = call.member_epoch
    if epoch in (JOINING_EPOCH, current.epoch):
        return None
    if epoch < current.epoch and epoch == current.previous_epoch and _owns_assigned(call, current):
        return None
    side = "greater" if epoch > current.epoch else "smaller"
    text = (
        f"The streams group member has a {side} member epoch ({epoch}) than the one known by the"
        f" group coordinator ({current.epoch}). The member must abandon all its partitions and"
        " rejoin."
    )
    return Refused(FENCED_MEMBER_EPOCH, text)


def _owns_assigned(call: StreamsHeartbeat, current: StreamsCurrentAssignment) -> bool:
    """Returns True if the request lists the tasks that the member owns, and each listed task is
    assigned to the member."""
    owned = call.owned
    return owned is not None and all(
        set(partitions) <= set(assigned.get(name, ())) and name in assigned
        for listed, assigned in (
            (owned.active, current.active),
            (owned.standby, current.standby),
            (owned.warmup, current.warmup),
        )
        for name, partitions in listed.items()
    )


def _stay(step: Step, call: StreamsHeartbeat) -> Refused | None:
    admitted = _admit(step, call)
    if isinstance(admitted, Refused):
        return admitted
    group, known, is_new = admitted
    updated = _updated(NO_METADATA if known is None else known.metadata, call)
    statuses: Statuses = []
    advanced = advance(step, call, group, known, updated, statuses)
    if isinstance(advanced, Refused):
        return advanced
    if call.shutdown_application:
        request_shutdown(step, group, call.member_id, advanced.metadata)
    if group.shutdown_by is not None:
        statuses.append(
            (
                StatusCode.SHUTDOWN_APPLICATION.value,
                f"Streams group member {group.shutdown_by} encountered a fatal error and requested"
                " a shutdown for the entire application.",
            )
        )
    answer(step, call, advanced, statuses, is_new=is_new)
    return None


def _updated(metadata: StreamsMemberMetadata, call: StreamsHeartbeat) -> StreamsMemberMetadata:
    return StreamsMemberMetadata(
        metadata.instance_id,
        metadata.rack_id if call.rack_id is None else call.rack_id,
        call.client_id,
        call.client_host,
        metadata.rebalance_timeout_ms
        if call.rebalance_timeout_ms == -1
        else call.rebalance_timeout_ms,
        metadata.topology_epoch if call.topology is None else call.topology.epoch,
        metadata.process_id if call.process_id is None else call.process_id,
        metadata.user_endpoint if call.user_endpoint is None else call.user_endpoint,
        metadata.client_tags if call.client_tags is None else call.client_tags,
    )


def _has_stale_topology(group: StreamsGroup, metadata: StreamsMemberMetadata) -> bool:
    return group.topology is not None and metadata.topology_epoch < group.topology.epoch


handle = idle_or_stepped(idle_heartbeat, heartbeat)
