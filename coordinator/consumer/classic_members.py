"""Classic members of a consumer group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

Requests are not parked, and no member runs an assignor: the coordinator assigns partitions to
classic members in the same way as to consumer members. A classic member must rejoin when it gets
the error REBALANCE_IN_PROGRESS. `ConsumerMember.rebalance` is the member's deadline to rejoin.
After a JoinGroup it is the member's deadline to sync.

Source: KIP-848, "Online migration"; Kafka 4.3.1
``GroupMetadataManager.classicGroupJoinToConsumerGroup``, ``classicGroupSyncToConsumerGroup``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coordinator.calls import Heartbeat, JoinGroup, LeaveGroup, Leaver, SyncGroup
from coordinator.classic.group import Group
from coordinator.classic.sweeps import begin
from coordinator.config import DISABLED
from coordinator.consumer.advance import Admitted, advance
from coordinator.consumer.downgrade import downgrade_by_join, may_downgrade
from coordinator.consumer.events import EpochCause
from coordinator.consumer.group import ConsumerGroup, ConsumerMember
from coordinator.consumer.leaving import fence
from coordinator.consumer.refused import Refused
from coordinator.consumer.states import MemberState
from coordinator.events import JoinRefused
from coordinator.outcome import JoinReply, LeaveReply, SyncReply
from coordinator.step import WHOLE_STEP, ShardState, Step, Sweep
from coordinator.topics_image import TopicsImage
from coordinator.wording import with_reason
from offsets.consumer_records import ClassicMember, MemberMetadata
from protocol.consumer_protocol import (
    CONSUMER,
    Subscription,
    encode_assignment,
    read_subscription,
)
from protocol.deadlines import NEVER
from protocol.errors import (
    FENCED_INSTANCE_ID,
    GROUP_MAX_SIZE_REACHED,
    ILLEGAL_GENERATION,
    INCONSISTENT_GROUP_PROTOCOL,
    MEMBER_ID_REQUIRED,
    NONE,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
    ProtocolError,
)
from protocol.now import Now

LEAVERS_PER_PIECE = 200
"""The maximum number of members that one step removes. The removal of a member costs about 25 us,
including its records and the journal."""

# ------------------------------------------------------------------------------------- JoinGroup


def join(step: Step, group: ConsumerGroup, call: JoinGroup) -> Group | None:
    """Handles a JoinGroup to a consumer group that has members, and returns None.

    If the sender is the last member with group.protocol=consumer, the group is downgraded instead.
    The function then returns the classic group, and the caller passes the JoinGroup to this group.
    """
    result = _join(step, group, call)
    if isinstance(result, Refused):
        client = call.client_id, call.client_host
        step.events.append(
            JoinRefused(group.group_id, call.member_id, result[0], *client, result[1])
        )
        step.reply(call.ticket, JoinReply(result.error_code, ""))
        return None
    return result


def _join(step: Step, group: ConsumerGroup, call: JoinGroup) -> Refused | Group | None:
    config = step.state.config
    member = group.members.get(call.member_id)
    if config.consumer_migration_policy == DISABLED:
        return Refused(
            INCONSISTENT_GROUP_PROTOCOL,
            "group.consumer.migration.policy=disabled: classic members can't join the group",
        )
    if member is None and len(group.members) >= config.consumer_max_size:
        return Refused(
            GROUP_MAX_SIZE_REACHED,
            f"the group is full: group.consumer.max.size is {config.consumer_max_size}",
        )
    if call.protocol_type != CONSUMER or not _shares_protocol(group, call):
        text = "the client's protocols differ from those of the group's classic members"
        return Refused(INCONSISTENT_GROUP_PROTOCOL, text)
    try:
        subscription = read_subscription(call.protocols[0][1])
    except ProtocolError as error:
        return Refused(INCONSISTENT_GROUP_PROTOCOL, str(error))
    member_id, instance_id, replaced = call.member_id, call.group_instance_id, None
    if instance_id is not None:
        holder_id = group.static_members.get(instance_id)
        if member_id and holder_id is None:
            return Refused(UNKNOWN_MEMBER_ID, f"instance id {instance_id} is unknown")
        if member_id and holder_id != member_id:
            return Refused(FENCED_INSTANCE_ID, f"another member has instance id {instance_id}")
        if holder_id is not None and not member_id:
            replaced = group.members[holder_id]
        member_id = member_id or call.fresh_id
    elif not member_id:
        if call.member_id_required:
            step.reply(call.ticket, JoinReply(MEMBER_ID_REQUIRED, call.fresh_id))
            return None
        member_id = call.fresh_id
    updated = _metadata(call, subscription)
    known = replaced or member
    if known is not None:
        classic = downgrade_by_join(step, group, known, updated)
        if classic is not None:
            return classic
    admitted = Admitted(group, member_id, member, replaced)
    if updated == admitted.metadata:
        updated = admitted.metadata
    advanced = advance(step, admitted, updated, _by_id(subscription.owned, step.state.topics))
    if isinstance(advanced, Refused):
        return advanced
    step.arm(advanced.member.session, call.session_timeout_ms)
    step.arm(advanced.member.rebalance, max(0, call.rebalance_timeout_ms))
    epoch, protocol = advanced.after.epoch, call.protocols[0][0]
    step.reply(call.ticket, JoinReply(NONE, member_id, epoch, CONSUMER, protocol))
    return None


def _metadata(call: JoinGroup, subscription: Subscription) -> MemberMetadata:
    return MemberMetadata(
        call.group_instance_id,
        subscription.rack,
        call.client_id,
        call.client_host,
        tuple(sorted(set(subscription.topics))),
        "",
        call.rebalance_timeout_ms,
        None,
        ClassicMember(call.session_timeout_ms, tuple(call.protocols)),
    )


def _shares_protocol(group: ConsumerGroup, call: JoinGroup) -> bool:
    """Returns whether all classic members, including the joining member, have at least one protocol
    in common."""
    names = {name for name, _ in call.protocols}
    for member in group.members.values():
        classic = member.metadata.classic
        if classic is not None and member.member_id != call.member_id:
            names &= {name for name, _ in classic.protocols}
    return bool(names)


def _by_id(owned: Mapping[str, Sequence[int]], image: TopicsImage) -> dict[bytes, Sequence[int]]:
    return {
        image.by_name[name].topic_id: partitions
        for name, partitions in owned.items()
        if name in image.by_name and partitions
    }


# ------------------------------------------------------------------------- SyncGroup and Heartbeat


def sync(step: Step, group: ConsumerGroup, call: SyncGroup) -> None:
    """Replies to a SyncGroup with the partitions that are currently assigned to the member."""
    error = _check(group, call, call.generation_id)
    member = group.members.get(call.member_id)
    classic = None if member is None else member.metadata.classic
    if error or member is None or classic is None:
        return step.reply(call.ticket, SyncReply(error))
    name, subscription = classic.protocols[0]
    if (call.protocol_type or CONSUMER) != CONSUMER or (call.protocol_name or name) != name:
        return step.reply(call.ticket, SyncReply(INCONSISTENT_GROUP_PROTOCOL))
    is_behind = group.target_epoch.epoch > member.current.epoch
    if is_behind and member.current.state != MemberState.UNREVOKED:
        _await_join(step.state, member, step.now)
        return step.reply(call.ticket, SyncReply(REBALANCE_IN_PROGRESS))
    member.rebalance.disarm()
    step.arm(member.session, classic.session_timeout_ms)
    names = step.state.topics.names
    assigned = member.current.assigned.items()
    assignment = encode_assignment(
        {names[topic_id]: sorted(own) for topic_id, own in assigned if topic_id in names},
        read_subscription(subscription).version,
    )
    return step.reply(call.ticket, SyncReply(NONE, CONSUMER, name, assignment))


def heartbeat(state: ShardState, group: ConsumerGroup, call: Heartbeat, now: Now) -> int:
    """Returns the error code of a Heartbeat; REBALANCE_IN_PROGRESS means that the member must
    rejoin."""
    error = _check(group, call, call.generation_id)
    member = group.members.get(call.member_id)
    classic = None if member is None else member.metadata.classic
    if error or member is None or classic is None:
        return error
    state.deadlines.arm(member.session, now.mono_ms + classic.session_timeout_ms)
    current = member.current
    if (
        current.epoch < group.target_epoch.epoch
        or current.state == MemberState.UNREVOKED
        or (current.state == MemberState.UNRELEASED and not _awaits(group, member))
    ):
        _await_join(state, member, now)
        return REBALANCE_IN_PROGRESS
    return NONE


def _check(group: ConsumerGroup, call: SyncGroup | Heartbeat, generation_id: int) -> int:
    if call.group_instance_id is not None:
        holder_id = group.static_members.get(call.group_instance_id)
        if holder_id is None:
            return UNKNOWN_MEMBER_ID
        if holder_id != call.member_id:
            return FENCED_INSTANCE_ID
    member = group.members.get(call.member_id)
    if member is None or member.metadata.classic is None:
        return UNKNOWN_MEMBER_ID
    return NONE if generation_id == member.current.epoch else ILLEGAL_GENERATION


def _awaits(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Returns whether another member still owns a partition of this member's target."""
    own, holders = member.member_id, group.holders
    return any(
        holders.get((topic_id, partition), own) != own
        for topic_id, partitions in group.target_of(own).items()
        for partition in partitions
    )


def _await_join(state: ShardState, member: ConsumerMember, now: Now) -> None:
    """Starts the timer that removes the member if the member does not rejoin within its rebalance
    timeout."""
    if member.rebalance.due_ms == NEVER:
        timeout_ms = max(0, member.metadata.rebalance_timeout_ms)
        state.deadlines.arm(member.rebalance, now.mono_ms + timeout_ms)


# ------------------------------------------------------------------------------------- LeaveGroup


def leave(step: Step, group: ConsumerGroup, call: LeaveGroup) -> None:
    """Handles a LeaveGroup: removes the members that leave, or that an administrator removes."""
    begin(step, MembersLeave(step, group, call))


class MembersLeave(Sweep):
    """Handles a LeaveGroup request to a consumer group, in pieces of `LEAVERS_PER_PIECE` members.
    Most requests need one piece.

    Each piece raises the group's epoch once. A downgrade of the group is always one piece, because
    its records must be in one batch.
    """

    def __init__(self, step: Step, group: ConsumerGroup, call: LeaveGroup) -> None:
        self.ticket = call.ticket
        self._call = call
        self._next = 0
        self._answers: list[tuple[str, str | None, int]] = []
        found = [_find(group, leaver) for leaver in call.members]
        gone = {member_id for member_id, error in found if not error}
        converts = may_downgrade(step, group, gone, len(group.members) - len(gone))
        self._size = len(call.members) if converts else LEAVERS_PER_PIECE

    def failed(self, error_code: int) -> LeaveReply:
        return LeaveReply(error_code)

    def piece(self, step: Step) -> int:
        """Implements Sweep.piece. One step must not execute two pieces: the members of a piece are
        removed only after the step, when the step's records are replayed."""
        group = step.state.consumer_groups.get(self._call.group_id)
        members = self._call.members[self._next : self._next + self._size]
        self._next += self._size
        leaving: dict[str, ConsumerMember] = {}
        reason = None
        for leaver in members:
            # Another request may have downgraded or deleted the group since the last piece.
            member_id, error = "", REBALANCE_IN_PROGRESS
            if group is not None:
                member_id, error = _find(group, leaver)
            if not error and member_id in leaving:
                error = UNKNOWN_MEMBER_ID
            if not error and group is not None:
                leaving[member_id] = group.members[member_id]
                reason = leaver.reason
            self._answers.append((leaver.member_id, leaver.group_instance_id, error))
        if group is not None and leaving:
            detail = with_reason("left", reason)
            fence(step, group, list(leaving.values()), EpochCause.MEMBER_LEFT, detail)
        if self._next < len(self._call.members):
            return WHOLE_STEP
        step.reply(self._call.ticket, LeaveReply(NONE, self._answers))
        return 0


def _find(group: ConsumerGroup, leaver: Leaver) -> tuple[str, int]:
    """Returns the id of the leaving member, and an error code. If the request has only an instance
    id, this is the id of the static member with this instance id."""
    if leaver.group_instance_id is not None:
        holder_id = group.static_members.get(leaver.group_instance_id)
        if holder_id is None:
            return "", UNKNOWN_MEMBER_ID
        if leaver.member_id and leaver.member_id != holder_id:
            return "", FENCED_INSTANCE_ID
        return holder_id, NONE
    return leaver.member_id, NONE if leaver.member_id in group.members else UNKNOWN_MEMBER_ID
