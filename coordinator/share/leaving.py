"""Removes members of share groups: members that leave, and members whose sessions expire. Source:
Kafka 4.3.1 ``GroupMetadataManager.shareGroupLeave``, ``shareGroupFenceMember``."""

from __future__ import annotations

from coordinator.calls import ShareHeartbeat
from coordinator.consumer.events import EpochBumped, EpochCause
from coordinator.consumer.refused import Refused
from coordinator.events import Cause, MemberLeft
from coordinator.outcome import ShareHeartbeatReply
from coordinator.share.changes import ShareChanges
from coordinator.share.events import ShareMemberRemoved
from coordinator.share.group import SHARE, ShareGroup, ShareMember, session_timeout_ms
from coordinator.share.wording import who
from coordinator.step import Step
from coordinator.wording import seconds
from offsets.share_records import ShareGroupRun
from protocol.errors import GROUP_ID_NOT_FOUND, NONE, UNKNOWN_MEMBER_ID


def leave(step: Step, call: ShareHeartbeat) -> Refused | None:
    """Handles a heartbeat by which a member leaves (epoch -1)."""
    group = step.state.share_groups.get(call.group_id)
    if group is None:
        text = f"Group {call.group_id} not found."
        if step.state.has_group(call.group_id):
            text = f"Group {call.group_id} is not a share group."
        return Refused(GROUP_ID_NOT_FOUND, text)
    member = group.members.get(call.member_id)
    if member is None:
        text = f"Member {call.member_id} is not a member of group {call.group_id}."
        return Refused(UNKNOWN_MEMBER_ID, text)
    fence(step, group, member, EpochCause.MEMBER_LEFT, "left")
    reply = ShareHeartbeatReply(NONE, None, call.member_id, call.member_epoch)
    step.reply(call.ticket, reply)
    return None


def fence(
    step: Step,
    group: ShareGroup,
    member: ShareMember,
    cause: EpochCause,
    detail: str,
    silent_ms: int = -1,
) -> None:
    """Removes a member and raises the group's epoch. The next heartbeat of any member computes a
    target assignment without the removed member."""
    is_leaving = cause is EpochCause.MEMBER_LEFT
    left = Cause.MEMBER_LEFT if is_leaving else Cause.SESSION_EXPIRED
    metadata, member_id, group_id = member.metadata, member.member_id, group.group_id
    client = metadata.client_id, metadata.client_host
    step.events.append(MemberLeft(group_id, member_id, None, *client, left, detail, silent_ms))
    step.events.append(ShareMemberRemoved(group_id, member_id))
    name = who(member_id, metadata)
    detail = f"{name} {detail}" if is_leaving else f"{name}: {detail}"
    changes = ShareChanges(group)
    changes.remove(member_id)
    group.changed_ms = step.now.mono_ms
    changes.bump(step.state.topics.metadata_hash(changes.names()))
    step.records.append(ShareGroupRun(group_id, changes.records, step.now.wall_ms))
    awaited = tuple(changes.members)
    step.events.append(
        EpochBumped(group_id, changes.epoch.epoch, cause, member_id, detail, awaited, SHARE)
    )


def session_due(step: Step, group: ShareGroup, member: ShareMember) -> None:
    silent_ms = session_timeout_ms(step.state.config, member)
    detail = f"session expired, no heartbeat for {seconds(silent_ms)}"
    fence(step, group, member, EpochCause.SESSION_EXPIRED, detail, silent_ms)
