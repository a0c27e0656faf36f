"""ShareGroupDescribe: describes the state of a share group."""

from __future__ import annotations

from coordinator.calls import ShareGroupDescribe
from coordinator.outcome import DescribedShareMember, Outcome, ShareDescribeReply, answered
from coordinator.share.group import ASSIGNOR
from coordinator.step import ShardState
from protocol.errors import GROUP_ID_NOT_FOUND, NONE
from protocol.now import Now


def describe(state: ShardState, call: ShareGroupDescribe, now: Now) -> Outcome:  # noqa: ARG001
    """Returns the description of a share group. A group of another type gets GROUP_ID_NOT_FOUND."""
    group_id = call.group_id
    group = state.share_groups.get(group_id)
    if group is None:
        text = f"Group {group_id} not found."
        if state.has_group(group_id):
            text = f"Group {group_id} is not a share group."
        return answered(call.ticket, ShareDescribeReply(GROUP_ID_NOT_FOUND, group_id, text))
    members = tuple(
        DescribedShareMember(
            member.member_id,
            member.metadata.rack_id,
            member.current.epoch,
            member.metadata.client_id,
            member.metadata.client_host,
            member.metadata.subscribed_topics,
            member.current.assigned,
        )
        for member in group.members.values()
    )
    reply = ShareDescribeReply(
        NONE,
        group_id,
        None,
        group.state().value,
        group.epoch.epoch,
        group.target_epoch.epoch,
        ASSIGNOR,
        members,
    )
    return answered(call.ticket, reply)
