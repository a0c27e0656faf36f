"""ShareGroupHeartbeat of a member that joins or stays. The heartbeat of a member that leaves is in
leaving.py.

Every request is answered immediately. A share group has no revocation: a member gets all partitions
of its target at once, even if other members have the same partitions.

Source: KIP-932; Kafka 4.3.1 ``GroupMetadataManager.shareGroupHeartbeat``,
``ShareGroupAssignmentBuilder``.
"""

from __future__ import annotations

from dataclasses import replace

from coordinator.calls import ShareHeartbeat
from coordinator.consumer.events import (
    EpochBumped,
    EpochCause,
    HeartbeatRefused,
    MemberReconciled,
    TargetComputed,
)
from coordinator.consumer.refused import Refused
from coordinator.events import JoinRefused, MemberJoined
from coordinator.outcome import ShareHeartbeatReply
from coordinator.share import initialization
from coordinator.share.changes import ShareChanges
from coordinator.share.group import (
    ASSIGNOR,
    JOINING_EPOCH,
    LEAVING_EPOCH,
    NO_METADATA,
    SHARE,
    ShareGroup,
)
from coordinator.share.group import ShareMember as Member
from coordinator.share.leaving import leave
from coordinator.share.reporting import reconciled
from coordinator.share.wording import gains, who
from coordinator.step import ShardState, Step, fits
from coordinator.topics_image import TopicsImage
from offsets.consumer_records import Assignment
from offsets.share_records import (
    ShareCurrentAssignment,
    ShareCurrentRecord,
    ShareGroupRun,
    ShareMemberMetadata,
)
from protocol.errors import (
    FENCED_MEMBER_EPOCH,
    GROUP_ID_NOT_FOUND,
    GROUP_MAX_SIZE_REACHED,
    INVALID_REQUEST,
    NONE,
    UNKNOWN_MEMBER_ID,
)
from protocol.now import Now


def idle_heartbeat(state: ShardState, call: ShareHeartbeat, now: Now) -> ShareHeartbeatReply | None:
    """Returns the reply to a heartbeat that reports no change, if the group has no change for the
    member either. Returns None for any other heartbeat."""
    epoch = call.member_epoch
    if epoch <= 0 or call.subscribed_topics is not None or call.rack_id is not None:
        return None
    group = state.share_groups.get(call.group_id)
    member = None if group is None else group.members.get(call.member_id)
    if group is None or member is None:
        return None
    metadata = member.metadata
    if (
        epoch != member.current.epoch
        or epoch != group.target_epoch.epoch
        or epoch != group.epoch.epoch
        or group.refresh_wanted
        or not group.is_settled
        or call.client_id != metadata.client_id
        or call.client_host != metadata.client_host
    ):
        return None
    settings = state.config.of_share_group(call.group_id)
    member.session.due_ms = now.mono_ms + settings.session_timeout_ms
    interval_ms, reply = settings.heartbeat_interval_ms, member.idle_reply
    if reply is None or reply.member_epoch != epoch or reply.heartbeat_interval_ms != interval_ms:
        reply = ShareHeartbeatReply(NONE, None, call.member_id, epoch, interval_ms)
        member.idle_reply = reply
    return reply


def heartbeat(step: Step, call: ShareHeartbeat) -> None:
    refused = _malformed(call)
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
        step.reply(call.ticket, ShareHeartbeatReply(*refused))


def _malformed(call: ShareHeartbeat) -> Refused | None:
    """Returns INVALID_REQUEST if the protocol forbids the request, else None. The error messages
    are Kafka's."""
    text = ""
    if not call.member_id.strip():
        text = "MemberId can't be empty."
    elif not call.group_id.strip():
        text = "GroupId can't be empty."
    elif call.rack_id is not None and not call.rack_id.strip():
        text = "RackId can't be empty."
    elif call.member_epoch == JOINING_EPOCH:
        if not call.subscribed_topics:
            text = "SubscribedTopicNames must be set in first request."
    elif call.member_epoch < LEAVING_EPOCH:
        text = "MemberEpoch is invalid."
    return Refused(INVALID_REQUEST, text) if text else None


def _admit(step: Step, call: ShareHeartbeat) -> tuple[ShareGroup, Member | None] | Refused:
    """Finds the group and the member of a heartbeat. Makes the same checks as Kafka, in the same
    order."""
    state, group_id, member_id = step.state, call.group_id, call.member_id
    group = state.share_groups.get(group_id)
    if group is None:
        if state.has_group(group_id):
            return Refused(GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
        if call.member_epoch != JOINING_EPOCH:
            return Refused(GROUP_ID_NOT_FOUND, f"Share group {group_id} not found.")
        group = ShareGroup(group_id)
    member = group.members.get(member_id)
    most = state.config.share_max_size
    if member is None and len(group.members) >= most:
        text = f"The share group has reached its maximum capacity of {most} members."
        return Refused(GROUP_MAX_SIZE_REACHED, text)
    if member is None and call.member_epoch != JOINING_EPOCH:
        text = f"Member {member_id} is not a member of group {group_id}."
        return Refused(UNKNOWN_MEMBER_ID, text)
    refused = None if member is None else _check_epoch(member, call)
    return refused or (group, member)


def _check_epoch(member: Member, call: ShareHeartbeat) -> Refused | None:
    """Returns FENCED_MEMBER_EPOCH if the epoch of the heartbeat is wrong, else None. A member whose
    last response was lost may send its previous epoch."""
    known, epoch = member.current.epoch, call.member_epoch
    if epoch in (JOINING_EPOCH, known):
        return None
    start = "The share group member has a"
    end = "The member must abandon all its partitions and rejoin."
    if epoch > known:
        text = (
            f"{start} greater member epoch ({epoch}) than the one known by the group coordinator"
            f" ({known}). {end}"
        )
        return Refused(FENCED_MEMBER_EPOCH, text)
    previous = member.current.previous_epoch
    if epoch == previous:
        return None
    text = (
        f"{start} smaller member epoch ({epoch}) than the one known by the group coordinator"
        f" ({known}), and it does not match the previous member epoch ({previous}). {end}"
    )
    return Refused(FENCED_MEMBER_EPOCH, text)


def _stay(step: Step, call: ShareHeartbeat) -> Refused | None:
    admitted = _admit(step, call)
    if isinstance(admitted, Refused):
        return admitted
    group, member = admitted
    before = ShareCurrentAssignment() if member is None else member.current
    changes = ShareChanges(group)
    updated = _updated(NO_METADATA if member is None else member.metadata, call)
    if member is None or updated != member.metadata:
        changes.set_metadata(call.member_id, updated)
    was_bumped = _change_epoch(step, changes, call.member_id, member)
    _compute_target(step, changes)
    after = _reconcile(before, updated, changes, call.member_id, step.state.topics, was_bumped)
    if after is not before:
        changes.records.append(ShareCurrentRecord(call.member_id, after))
    wanted = initialization.ask(step, changes)
    if not _emit(step, changes):
        step.events.clear()
        text = (
            "The group's target assignment does not fit into a batch of __consumer_offsets"
            " (max.message.bytes)."
        )
        return Refused(GROUP_MAX_SIZE_REACHED, text)
    if wanted is not None:
        group.asked_ms = step.now.mono_ms
        step.events.append(wanted)
    if member is None:
        client = updated.client_id, updated.client_host
        joined = MemberJoined(group.group_id, call.member_id, None, *client, None)
        step.events.insert(0, joined)
        member = group.new_member(call.member_id)
    if after is not before:
        step.events.append(MemberReconciled(group.group_id, call.member_id, before, after))
        reconciled(step, changes, call.member_id, after)
    _answer(step, call, member, before.assigned, after)
    return None


def _updated(metadata: ShareMemberMetadata, call: ShareHeartbeat) -> ShareMemberMetadata:
    names = metadata.subscribed_topics
    if call.subscribed_topics is not None:
        names = tuple(sorted(set(call.subscribed_topics)))
    rack_id = metadata.rack_id if call.rack_id is None else call.rack_id
    return ShareMemberMetadata(rack_id, call.client_id, call.client_host, names)


def _change_epoch(step: Step, changes: ShareChanges, member_id: str, member: Member | None) -> bool:
    """Raises the group's epoch if subscriptions or topics have changed, or if partitions were
    initialized. Returns whether the epoch was raised."""
    group, image = changes.group, step.state.topics
    before = () if member is None else member.metadata.subscribed_topics
    metadata = changes.members[member_id]
    cause = None
    if metadata.subscribed_topics != before:
        cause = EpochCause.MEMBER_JOINED if member is None else EpochCause.SUBSCRIPTION_CHANGED
    elif group.target_epoch.epoch >= group.epoch.epoch and group.lacks_initialized_partitions(
        image
    ):
        cause = EpochCause.PARTITIONS_INITIALIZED
    if cause is None and not group.refresh_wanted:
        return False
    metadata_hash = image.metadata_hash(changes.names())
    group.refresh_wanted = False
    if cause is None and metadata_hash != group.epoch.metadata_hash:
        cause = EpochCause.TOPICS_CHANGED
    if cause is None:
        return False
    changes.bump(metadata_hash)
    name = who(member_id, metadata)
    detail = {
        EpochCause.MEMBER_JOINED: f"{name} joined",
        EpochCause.SUBSCRIPTION_CHANGED: f"{name} changed its subscription",
        EpochCause.PARTITIONS_INITIALIZED: "partitions of a subscribed topic were initialized",
    }.get(cause, "a subscribed topic was created, deleted or given more partitions")
    by_member = cause in (EpochCause.MEMBER_JOINED, EpochCause.SUBSCRIPTION_CHANGED)
    awaited = tuple(each for each in changes.members if not (by_member and each == member_id))
    epoch, caused_by = changes.epoch.epoch, member_id if by_member else ""
    step.events.append(EpochBumped(group.group_id, epoch, cause, caused_by, detail, awaited, SHARE))
    return True


def _compute_target(step: Step, changes: ShareChanges) -> None:
    """Computes a target assignment if the group's epoch is above the epoch of the target and the
    minimum interval between two targets has passed."""
    if changes.target_epoch.epoch >= changes.epoch.epoch:
        return
    group_id, now_ms = changes.group.group_id, step.now.wall_ms
    computed_ms = changes.target_epoch.timestamp_ms
    interval_ms = step.state.config.of_share_group(group_id).assignment_interval_ms
    if computed_ms and 0 <= now_ms - computed_ms < interval_ms:
        return
    before = changes.compute_target(step.state.topics, now_ms)
    after = changes.targets
    changed = sum(before.get(member_id) != target for member_id, target in after.items())
    moved = gains(before, after, step.state.topics)
    epoch = changes.epoch.epoch
    step.events.append(TargetComputed(group_id, epoch, ASSIGNOR, len(after), changed, moved))


def _reconcile(
    before: ShareCurrentAssignment,
    metadata: ShareMemberMetadata,
    changes: ShareChanges,
    member_id: str,
    image: TopicsImage,
    was_bumped: bool,
) -> ShareCurrentAssignment:
    """Returns the member's new assignment: the partitions of its target, without topics to which
    the member no longer subscribes. If the assignment does not change, returns the object
    ``before``."""
    epoch = changes.target_epoch.epoch
    if epoch == before.epoch and not was_bumped:
        return before
    target = changes.targets.get(member_id, {})
    subscribed = set(metadata.subscribed_topics)
    names = image.names
    assigned = {id_: own for id_, own in target.items() if names.get(id_) in subscribed}
    if epoch != before.epoch:
        return ShareCurrentAssignment(epoch, before.epoch, 0, assigned)
    return before if assigned == before.assigned else replace(before, assigned=assigned)


def _emit(step: Step, changes: ShareChanges) -> bool:
    """Emits the records of the step. Returns False, and emits nothing, if they do not fit in one
    batch."""
    state, group = step.state, changes.group
    if changes.records:
        run = ShareGroupRun(group.group_id, changes.records, step.now.wall_ms)
        if not fits([run], state.config.max_record_bytes):
            return False
        group.changed_ms = step.now.mono_ms
        step.records.append(run)
    elif not group.stored.initializing and group.target_epoch.epoch >= group.epoch.epoch:
        group.is_settled = True
    state.share_groups[group.group_id] = group
    return True


def _answer(
    step: Step,
    call: ShareHeartbeat,
    member: Member,
    before: Assignment,
    after: ShareCurrentAssignment,
) -> None:
    settings = step.state.config.of_share_group(call.group_id)
    step.arm(member.session, settings.session_timeout_ms)
    is_full = call.member_epoch == JOINING_EPOCH or call.subscribed_topics is not None
    assignment = after.assigned if is_full or after.assigned != before else None
    interval_ms = settings.heartbeat_interval_ms
    step.reply(
        call.ticket,
        ShareHeartbeatReply(NONE, None, call.member_id, after.epoch, interval_ms, assignment),
    )
