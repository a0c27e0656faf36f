"""ConsumerGroupHeartbeat of a member that joins or stays. The heartbeat of a member that leaves is
in leaving.py.

Every request is answered immediately. `advance` changes the group. Source: KIP-848; Kafka 4.3.1
``GroupMetadataManager.consumerGroupHeartbeat``.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.calls import ConsumerHeartbeat
from coordinator.consumer.advance import Admitted, advance
from coordinator.consumer.events import HeartbeatRefused
from coordinator.consumer.group import JOINING_EPOCH, ConsumerGroup, ConsumerMember
from coordinator.consumer.leaving import leave
from coordinator.consumer.refused import Refused
from coordinator.consumer.regexes import is_due
from coordinator.consumer.states import STABLE, MemberState
from coordinator.consumer.upgrade import end_classic_group, upgraded
from coordinator.events import JoinRefused
from coordinator.outcome import ConsumerHeartbeatReply
from coordinator.step import ShardState, Step
from offsets.consumer_records import ConsumerRecord, MemberMetadata
from protocol.errors import (
    FENCED_INSTANCE_ID,
    FENCED_MEMBER_EPOCH,
    GROUP_ID_NOT_FOUND,
    GROUP_MAX_SIZE_REACHED,
    INVALID_REGULAR_EXPRESSION,
    INVALID_REQUEST,
    NONE,
    UNKNOWN_MEMBER_ID,
    UNRELEASED_INSTANCE_ID,
    UNSUPPORTED_ASSIGNOR,
)
from protocol.now import Now


def idle_heartbeat(
    state: ShardState, call: ConsumerHeartbeat, now: Now
) -> ConsumerHeartbeatReply | None:
    """Returns the reply to a heartbeat of a stable member that reports no change; None for any
    other heartbeat. A heartbeat without a change only extends the session; most heartbeats are of
    this kind."""
    if not call.reports_no_change:
        return None
    group = state.consumer_groups.get(call.group_id)
    member = None if group is None else group.members.get(call.member_id)
    if group is None or member is None:
        return None
    current, metadata, epoch = member.current, member.metadata, call.member_epoch
    if (
        epoch != current.epoch
        or epoch != group.target_epoch.epoch
        or epoch != group.epoch.epoch
        or epoch <= 0
        or current.state != STABLE
        or group.refresh_wanted
        or (group.has_regexes and is_due(group, group.used_regexes, state.topics, now))
        or metadata.classic is not None
        or call.client_id != metadata.client_id
        or call.client_host != metadata.client_host
        or (call.instance_id is not None and call.instance_id != metadata.instance_id)
    ):
        return None
    settings = state.config.of_group(call.group_id)
    member.session.due_ms = now.mono_ms + settings.session_timeout_ms
    age_ms = now.wall_ms - group.target_epoch.timestamp_ms
    interval_ms, reply = settings.heartbeat_interval_ms, member.idle_reply
    if age_ms < interval_ms:
        interval_ms = state.config.heartbeat_interval_ms(call.group_id, age_ms)
    if reply is None or reply.member_epoch != epoch or reply.heartbeat_interval_ms != interval_ms:
        reply = ConsumerHeartbeatReply(NONE, None, call.member_id, epoch, interval_ms)
        member.idle_reply = reply
    return reply


def heartbeat(step: Step, call: ConsumerHeartbeat) -> None:
    refused = _malformed(call) or _unknown_assignor(step, call)
    if refused is None:
        if call.member_epoch < 0:
            refused = leave(step, call)
        else:
            refused = _stay(step, call)
    if refused is not None:
        client = call.client_id, call.client_host
        error_code, text = refused
        if call.member_epoch == JOINING_EPOCH:
            names = call.group_id, call.member_id
            step.events.append(JoinRefused(*names, error_code, *client, text))
        else:
            step.events.append(
                HeartbeatRefused(call.group_id, call.member_id, *client, error_code, text)
            )
        step.reply(call.ticket, ConsumerHeartbeatReply(*refused))


def _malformed(call: ConsumerHeartbeat) -> Refused | None:
    """Returns INVALID_REQUEST if the protocol forbids the request, else None. The error messages
    are Kafka's."""
    text = ""
    if not call.member_id.strip() and (call.makes_own_id or call.member_epoch != JOINING_EPOCH):
        text = "MemberId can't be empty."
    elif not call.group_id.strip():
        text = "GroupId can't be empty."
    elif call.instance_id is not None and not call.instance_id.strip():
        text = "InstanceId can't be empty."
    elif call.rack_id is not None and not call.rack_id.strip():
        text = "RackId can't be empty."
    elif call.member_epoch == JOINING_EPOCH:
        if call.rebalance_timeout_ms == -1:
            text = "RebalanceTimeoutMs must be provided in first request."
        elif call.owned is None or call.owned:
            text = "TopicPartitions must be empty when (re-)joining."
        elif call.subscribed_topics is None and call.subscribed_regex is None:
            text = (
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when"
                " (re-)joining."
            )
    elif call.member_epoch == -2 and call.instance_id is None:
        text = "InstanceId can't be null."
    elif call.member_epoch < -2:
        text = "MemberEpoch is invalid."
    return Refused(INVALID_REQUEST, text) if text else None


def _unknown_assignor(step: Step, call: ConsumerHeartbeat) -> Refused | None:
    known = step.state.config.consumer_assignors
    if call.server_assignor is None or call.server_assignor in known:
        return None
    text = (
        f"ServerAssignor {call.server_assignor} is not supported. Supported assignors:"
        f" {', '.join(known)}."
    )
    return Refused(UNSUPPORTED_ASSIGNOR, text)


def _admit(step: Step, call: ConsumerHeartbeat) -> Admitted | Refused:
    """Finds the group and the member of a heartbeat. Makes the same checks as Kafka, in the same
    order."""
    state = step.state
    conversion: Sequence[ConsumerRecord] = ()
    group = state.consumer_groups.get(call.group_id)
    if group is None:
        classic = state.groups.get(call.group_id)
        if call.group_id in state.share_groups or call.group_id in state.streams_groups:
            text = f"Group {call.group_id} is not a consumer group."
            return Refused(GROUP_ID_NOT_FOUND, text)
        if call.member_epoch != JOINING_EPOCH:
            return Refused(GROUP_ID_NOT_FOUND, f"Consumer group {call.group_id} not found.")
        if classic is not None and classic.members:
            converted = upgraded(step, classic)
            if isinstance(converted, Refused):
                return converted
            group, conversion = converted
        else:
            group = ConsumerGroup(call.group_id)
    member_id = call.member_id or call.fresh_id
    member = group.members.get(member_id)
    if member is None and len(group.members) >= state.config.consumer_max_size:
        size = len(group.members)
        text = f"The consumer group has reached its maximum capacity of {size} members."
        return Refused(GROUP_MAX_SIZE_REACHED, text)
    replaced = None
    if call.instance_id is None:
        if member is None and call.member_epoch != JOINING_EPOCH:
            text = f"Member {member_id} is not a member of group {call.group_id}."
            return Refused(UNKNOWN_MEMBER_ID, text)
    else:
        found = _static_member(group, call, member_id)
        if isinstance(found, Refused):
            return found
        is_joining = call.member_epoch == JOINING_EPOCH
        if found is not None and (found.member_id != member_id or (is_joining and found.is_away)):
            replaced = found
    if member is not None:
        refused = _check_epoch(member, call)
        if refused is not None:
            return refused
    if call.subscribed_regex and call.regex_error:
        return Refused(INVALID_REGULAR_EXPRESSION, call.regex_error)
    if member is not None and member.current.state == MemberState.UNKNOWN and call.owned != {}:
        return Refused(FENCED_MEMBER_EPOCH, "The member must rejoin and give up its partitions.")
    return Admitted(group, member_id, member, replaced, conversion)


def _static_member(
    group: ConsumerGroup, call: ConsumerHeartbeat, member_id: str
) -> ConsumerMember | Refused | None:
    """Returns the member that has the instance id of the heartbeat, if the sender may continue as
    this member. Returns None if the sender joins and no member has the instance id. Otherwise
    returns an error."""
    holder_id = group.static_members.get(call.instance_id or "")
    if holder_id is None:
        if call.member_epoch == JOINING_EPOCH:
            return None
        return Refused(UNKNOWN_MEMBER_ID, f"Instance id {call.instance_id} is unknown.")
    holder = group.members[holder_id]
    if holder_id == member_id:
        return holder  # Kafka answers 111: one lost response would end the client
    if call.member_epoch != JOINING_EPOCH:
        text = (
            f"Static member {member_id} with instance id {call.instance_id} was fenced by"
            f" member {holder_id}."
        )
        return Refused(FENCED_INSTANCE_ID, text)
    if holder.is_away or holder.metadata.classic is not None:
        return holder
    text = (
        f"Static member {member_id} with instance id {call.instance_id} cannot join the group"
        f" because the instance id is owned by member {holder_id}."
    )
    return Refused(UNRELEASED_INSTANCE_ID, text)


def _check_epoch(member: ConsumerMember, call: ConsumerHeartbeat) -> Refused | None:
    """Returns FENCED_MEMBER_EPOCH if the epoch of the heartbeat is wrong, else None.

    A member whose last response was lost sends its previous epoch. This epoch is accepted if the
    member lists only partitions that are assigned to it.
    """
    current, epoch = member.current, call.member_epoch
    if epoch in (JOINING_EPOCH, current.epoch):
        return None
    if epoch < current.epoch and epoch == current.previous_epoch and call.owned is not None:
        assigned = current.assigned
        if all(
            topic in assigned and set(partitions) <= assigned[topic].keys()
            for topic, partitions in call.owned.items()
        ):
            return None
    side = "greater" if epoch > current.epoch else "smaller"
    text = (
        f"The consumer group member has a {side} member epoch ({epoch}) than the one known by"
        f" the group coordinator ({current.epoch}). The member must abandon all its partitions"
        " and rejoin."
    )
    return Refused(FENCED_MEMBER_EPOCH, text)


def _stay(step: Step, call: ConsumerHeartbeat) -> Refused | None:
    admitted = _admit(step, call)
    if isinstance(admitted, Refused):
        return admitted
    updated = _updated(admitted.metadata, call)
    classic = step.state.groups.get(call.group_id)
    advanced = advance(step, admitted, updated, call.owned, call.sender)
    if isinstance(advanced, Refused):
        return advanced
    if admitted.conversion and classic is not None:
        end_classic_group(step, classic, admitted.group)
    member, before, after = advanced
    settings = step.state.config.of_group(call.group_id)
    step.arm(member.session, settings.session_timeout_ms)
    if after is not before:
        if after.state == MemberState.UNREVOKED:
            step.arm(member.rebalance, max(0, updated.rebalance_timeout_ms))
        else:
            member.rebalance.disarm()
    assignment = None
    is_joining = call.member_epoch == JOINING_EPOCH
    if is_joining or call.is_full or after.assigned != before.assigned:
        assignment = {topic: tuple(epochs) for topic, epochs in after.assigned.items()}
    is_new_target = after.epoch > admitted.group.target_epoch.epoch or admitted.group.resolving
    age_ms = 0 if is_new_target else step.now.wall_ms - admitted.group.target_epoch.timestamp_ms
    interval_ms = step.state.config.heartbeat_interval_ms(call.group_id, age_ms)
    step.reply(
        call.ticket,
        ConsumerHeartbeatReply(NONE, None, member.member_id, after.epoch, interval_ms, assignment),
    )
    return None


def _updated(metadata: MemberMetadata, call: ConsumerHeartbeat) -> MemberMetadata:
    """Returns the metadata with the changes of the request. If nothing changes, returns the same
    object."""
    names = metadata.subscribed_topics
    if call.subscribed_topics is not None:
        names = tuple(sorted(set(call.subscribed_topics)))
    values = (
        metadata.instance_id if call.instance_id is None else call.instance_id,
        metadata.rack_id if call.rack_id is None else call.rack_id,
        call.client_id,
        call.client_host,
        names,
        metadata.subscribed_regex if call.subscribed_regex is None else call.subscribed_regex,
        metadata.rebalance_timeout_ms
        if call.rebalance_timeout_ms == -1
        else call.rebalance_timeout_ms,
        metadata.server_assignor if call.server_assignor is None else call.server_assignor,
        None,
    )
    updated = MemberMetadata(*values)
    return metadata if updated == metadata else updated
