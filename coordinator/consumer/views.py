"""ConsumerGroupDescribe: describes the state of a consumer group."""

from __future__ import annotations

from coordinator.calls import ConsumerGroupDescribe
from coordinator.consumer.group import ConsumerGroup, ConsumerMember
from coordinator.consumer.target import preferred_assignor
from coordinator.outcome import ConsumerDescribeReply, DescribedConsumer, Outcome, answered
from coordinator.step import ShardState
from offsets.consumer_records import Assignment
from protocol.errors import GROUP_ID_NOT_FOUND, NONE
from protocol.now import Now


def describe(state: ShardState, call: ConsumerGroupDescribe, now: Now) -> Outcome:  # noqa: ARG001
    """Returns the description of a consumer group. A group of another type gets GROUP_ID_NOT_FOUND,
    as clients expect."""
    group_id = call.group_id
    group = state.consumer_groups.get(group_id)
    if group is None:
        text = f"Group {group_id} not found."
        if state.has_group(group_id):
            text = f"Group {group_id} is not a consumer group."
        return answered(call.ticket, ConsumerDescribeReply(GROUP_ID_NOT_FOUND, group_id, text))
    members = {member_id: member.metadata for member_id, member in group.members.items()}
    reply = ConsumerDescribeReply(
        NONE,
        group_id,
        None,
        group.state().value,
        group.epoch.epoch,
        group.target_epoch.epoch,
        preferred_assignor(members, state.config.consumer_assignors),
        tuple(_described(group, member) for member in group.members.values()),
    )
    return answered(call.ticket, reply)


def _described(group: ConsumerGroup, member: ConsumerMember) -> DescribedConsumer:
    metadata = member.metadata
    return DescribedConsumer(
        member.member_id,
        metadata.instance_id,
        metadata.rack_id,
        member.current.epoch,
        metadata.client_id,
        metadata.client_host,
        metadata.subscribed_topics,
        metadata.subscribed_regex or "",
        _held(member),
        group.target_of(member.member_id),
        metadata.classic is not None,
    )


def _held(member: ConsumerMember) -> Assignment:
    """Returns the partitions that a member may own: its assigned and its revoking partitions."""
    held: dict[bytes, set[int]] = {}
    for partitions in (member.current.assigned, member.current.revoking):
        for topic_id, epochs in partitions.items():
            held.setdefault(topic_id, set()).update(epochs)
    return {topic_id: tuple(sorted(numbers)) for topic_id, numbers in sorted(held.items())}
