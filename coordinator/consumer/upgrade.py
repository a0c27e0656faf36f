"""Upgrade: a member that joins with group.protocol=consumer converts a classic group into a
consumer group. Downgrades are in downgrade.py.

The classic members become members of the consumer group. Their parked requests get
REBALANCE_IN_PROGRESS, so that they rejoin. Kafka rejects the conversion if an assignment has user
data. Muster rejects the conversion only if the assignment has user data and the assignor is
unknown.

Source: KIP-848, "Online migration"; Kafka 4.3.1 ``GroupMetadataManager.convertToConsumerGroup``.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.classic.group import Group
from coordinator.classic.member import Member
from coordinator.config import UPGRADES
from coordinator.consumer.group import ConsumerGroup
from coordinator.consumer.refused import Refused
from coordinator.consumer.states import MemberState
from coordinator.events import GroupConverted
from coordinator.outcome import JoinReply, SyncReply
from coordinator.step import Step
from coordinator.topics_image import TopicsImage
from offsets.consumer_records import (
    AssignedEpochs,
    ClassicMember,
    ConsumerRecord,
    CurrentAssignment,
    CurrentRecord,
    EpochRecord,
    GroupEpoch,
    MemberMetadata,
    MemberRecord,
    TargetEpoch,
    TargetEpochRecord,
    TargetRecord,
)
from protocol.consumer_protocol import CONSUMER, assigned_partitions, read_subscription, user_data
from protocol.errors import GROUP_ID_NOT_FOUND, REBALANCE_IN_PROGRESS, ProtocolError

_KNOWN_ASSIGNORS = frozenset({"range", "roundrobin", "sticky", "cooperative-sticky"})
"""Assignors whose user data in assignments may be lost when the group becomes a consumer group. For
example, librdkafka's sticky assignors write such data."""


def upgraded(
    step: Step, classic: Group
) -> tuple[ConsumerGroup, Sequence[ConsumerRecord]] | Refused:
    """Returns the consumer group with a classic group's members, and the records that write the
    consumer group.

    Returns Refused with GROUP_ID_NOT_FOUND, as in Kafka, if the group can't be converted. The
    classic group is then unchanged.
    """
    config, group_id = step.state.config, classic.group_id
    reason = ""
    if config.consumer_migration_policy not in UPGRADES:
        reason = "group.consumer.migration.policy does not allow the upgrade"
    elif classic.protocol_type != CONSUMER:
        reason = f"the group's protocol type is {classic.protocol_type}, not {CONSUMER}"
    elif len(classic.members) > config.consumer_max_size:
        reason = (
            f"the group has more members than group.consumer.max.size ({config.consumer_max_size})"
        )
    else:
        try:
            return _converted(classic, step.state.topics)
        except ProtocolError as error:
            reason = str(error)
    text = f"Group {group_id} is a classic group with members and can't be upgraded: {reason}."
    return Refused(GROUP_ID_NOT_FOUND, text)


def _converted(
    classic: Group, image: TopicsImage
) -> tuple[ConsumerGroup, Sequence[ConsumerRecord]]:
    """Converts the group's members. Raises ProtocolError if a member's metadata or assignment can't
    be converted."""
    epoch = classic.generation_id
    members = list(classic.members.values())
    metadata = {each.member_id: _metadata(each) for each in members}
    if classic.protocol_name not in _KNOWN_ASSIGNORS and any(
        user_data(each.assignment) for each in members
    ):
        raise ProtocolError(
            f"the assignor {classic.protocol_name} adds data to assignments, which would be lost"
        )
    assigned = {each.member_id: _assigned(each, epoch, image) for each in members}
    records: list[ConsumerRecord] = [MemberRecord(*each) for each in metadata.items()]
    group = ConsumerGroup(classic.group_id)
    names = {name for each in metadata.values() for name in each.subscribed_topics}
    records.append(EpochRecord(GroupEpoch(epoch, image.metadata_hash(names))))
    records += [
        TargetRecord(name, {topic: tuple(epochs) for topic, epochs in own.items()})
        for name, own in assigned.items()
    ]
    records.append(TargetEpochRecord(TargetEpoch(epoch)))
    records += [
        CurrentRecord(name, CurrentAssignment(epoch, epoch, MemberState.STABLE, own))
        for name, own in assigned.items()
    ]
    for record in records:
        group.fold(record)
    group.refresh_wanted = False
    return group, records


def _metadata(member: Member) -> MemberMetadata:
    subscription = read_subscription(member.protocols[0][1])
    return MemberMetadata(
        member.group_instance_id,
        subscription.rack,
        member.client_id,
        member.client_host,
        tuple(sorted(set(subscription.topics))),
        "",
        member.rebalance_timeout_ms,
        None,
        ClassicMember(member.session_timeout_ms, member.protocols),
    )


def _assigned(member: Member, epoch: int, image: TopicsImage) -> AssignedEpochs:
    """Returns the last assignment of a classic member, by topic id. Deleted topics are omitted."""
    named = sorted(assigned_partitions(member.assignment).items())
    return {
        image.by_name[name].topic_id: dict.fromkeys(sorted(partitions), epoch)
        for name, partitions in named
        if name in image.by_name and partitions
    }


def end_classic_group(step: Step, classic: Group, group: ConsumerGroup) -> None:
    """Replies to the parked requests of a converted group, and starts the sessions of its members
    in the consumer group."""
    for member in classic.members.values():
        step.answer_join(classic, member, JoinReply(REBALANCE_IN_PROGRESS, member.member_id))
        step.answer_sync(classic, member, SyncReply(REBALANCE_IN_PROGRESS))
        step.state.disconnect(member)
        member.session.disarm()
        session = group.new_member(member.member_id).session
        step.arm(session, member.session_timeout_ms)
    for timer in classic.pending.values():
        timer.disarm()
    classic.phase.disarm()
    members = len(classic.members)
    noun = "classic member continues" if members == 1 else "classic members continue"
    step.events.append(
        GroupConverted(group.group_id, CONSUMER, group.epoch.epoch, f"{members} {noun} in it")
    )
