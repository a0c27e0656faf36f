"""DescribeShareGroupOffsets, AlterShareGroupOffsets and DeleteShareGroupOffsets in the group
coordinator.

The offsets are in the share coordinator. The group decides which share partitions must be read,
initialized or deleted. The broker then calls the share coordinator, and afterwards
`GroupShard.share_state_initialized` or `GroupShard.share_state_deleted`.

Source: Kafka 4.3.1 ``GroupMetadataManager``: ``initializedShareGroupPartitions``,
``alterShareGroupOffsets``, ``sharePartitionsEligibleForOffsetDeletion``.
"""

from __future__ import annotations

from coordinator.calls import ShareOffsetsAlter, ShareOffsetsDelete, ShareOffsetsDescribe, Ticket
from coordinator.outcome import Outcome, ShareOffsetsReply, answered
from coordinator.share import initialization
from coordinator.share.group import ShareGroup
from coordinator.step import Handler, ShardState, Step, stepped
from protocol.errors import GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, NONE
from protocol.now import Now

_NOT_EMPTY = "The group is not empty."


def describe(state: ShardState, call: ShareOffsetsDescribe, now: Now) -> Outcome:  # noqa: ARG001
    """Returns the partitions of the group that have a delivery state. An unknown group has no
    partitions."""
    group = state.share_groups.get(call.group_id)
    topics = {} if group is None else group.assignable()
    return answered(call.ticket, ShareOffsetsReply(NONE, topics=topics))


def alter(step: Step, call: ShareOffsetsAlter) -> None:
    """Marks partitions as initializing. Creates the group if necessary. The reply has the state
    epoch with which the broker must initialize the states of these partitions."""
    group = _empty_group(step, call.ticket, call.group_id, may_create=True)
    if group is None:
        return
    if call.topics:
        initialization.again(step, group, call.topics)
    topics = {topic_id: partitions for topic_id, (_, partitions) in call.topics.items()}
    reply = ShareOffsetsReply(NONE, state_epoch=group.epoch.epoch, topics=topics)
    step.reply(call.ticket, reply)


def delete(step: Step, call: ShareOffsetsDelete) -> None:
    """Marks topics as deleting. The reply has the partitions whose delivery state the broker must
    delete. A topic without a delivery state is omitted."""
    group = _empty_group(step, call.ticket, call.group_id, may_create=False)
    if group is not None:
        topics = initialization.deleting(step, group, call.topic_ids)
        step.reply(call.ticket, ShareOffsetsReply(NONE, topics=topics))


def _empty_group(
    step: Step, ticket: Ticket, group_id: str, *, may_create: bool
) -> ShareGroup | None:
    """Returns the share group if it has no members. Otherwise replies with an error and returns
    None. With ``may_create`` an unknown group is created."""
    group = step.state.share_groups.get(group_id)
    if group is None:
        is_other = step.state.has_group(group_id)
        if may_create and not is_other:
            return ShareGroup(group_id)
        text = f"Group {group_id} {'is not a share group' if is_other else 'not found'}."
        step.reply(ticket, ShareOffsetsReply(GROUP_ID_NOT_FOUND, text))
        return None
    if group.members:
        step.reply(ticket, ShareOffsetsReply(NON_EMPTY_GROUP, _NOT_EMPTY))
        return None
    return group


HANDLERS: dict[type, Handler] = {
    ShareOffsetsAlter: stepped(alter),
    ShareOffsetsDelete: stepped(delete),
    ShareOffsetsDescribe: describe,
}
