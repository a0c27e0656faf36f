"""Downgrade: a consumer group whose members are all classic becomes a classic group again.

The generation of the classic group is the epoch of the consumer group. The classic group rebalances
if a member left, or if a member does not own the partitions of its target yet. Source: KIP-848,
"Online migration"; Kafka 4.3.1 ``GroupMetadataManager.convertToClassicGroup``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

from coordinator.classic.group import Group, vote
from coordinator.classic.rebalance import prepare
from coordinator.config import DOWNGRADES
from coordinator.consumer.deletion import tombstones
from coordinator.consumer.group import ConsumerGroup, ConsumerMember
from coordinator.consumer.states import MemberState
from coordinator.consumer.wording import who
from coordinator.events import Cause, GroupConverted
from coordinator.step import Step, fits
from offsets.consumer_records import CurrentAssignment, MemberMetadata
from offsets.runs import GroupMember, GroupValue
from protocol.consumer_protocol import CONSUMER, encode_assignment, read_subscription


class Remaining(NamedTuple):
    """A classic member of the group after the downgrade."""

    member_id: str
    metadata: MemberMetadata
    current: CurrentAssignment


def may_downgrade(step: Step, group: ConsumerGroup, without: Collection[str], left: int) -> bool:
    """Returns whether a downgrade to ``left`` members is possible: the settings allow it, and all
    members except those in ``without`` are classic."""
    config = step.state.config
    consumers = len(group.members) - group.classic_members
    return (
        0 < left <= config.max_size
        and config.consumer_migration_policy in DOWNGRADES
        and consumers == sum(group.members[name].metadata.classic is None for name in without)
    )


def downgrade(
    step: Step,
    group: ConsumerGroup,
    left: Sequence[Remaining],
    why: str,
    rebalance: tuple[Cause, str] | None,
) -> Group | None:
    """Writes and returns a classic group with the members ``left``. Returns None and changes
    nothing if the records do not fit in a batch.

    ``rebalance`` is the cause of a rebalance that begins after the downgrade; None if no rebalance
    is necessary. With ``rebalance``, Muster writes the group without a leader, so that a broker
    that loads this record starts the rebalance too. Kafka writes the first member as the leader,
    and loads the group as stable. After a crash, no member then owns the partitions of the member
    that left.
    """
    classic = _classic_group(step, group, left)
    if rebalance is not None:
        classic.leader_id = None
    runs = tombstones(group), classic.run()
    if not fits(runs, step.state.config.max_record_bytes):
        return None
    step.records += runs
    step.state.groups[group.group_id] = classic
    for member in group.members.values():
        member.session.disarm()
        member.rebalance.disarm()
    for known in classic.members.values():
        step.arm(known.session, known.session_timeout_ms)
    generation = classic.generation_id
    step.events.append(GroupConverted(group.group_id, "classic", generation, why))
    if rebalance is not None:
        prepare(step, classic, *rebalance)
    return classic


def downgrade_by_join(
    step: Step, group: ConsumerGroup, joined: ConsumerMember, updated: MemberMetadata
) -> Group | None:
    """Returns the classic group after a downgrade that the JoinGroup of ``joined`` caused.
    ``updated`` is the metadata in that JoinGroup.

    Returns None if another member still has group.protocol=consumer, or if the settings or the size
    of the records forbid the downgrade.

    The group rebalances unless all members already own exactly the partitions of their targets, and
    these targets are unchanged. Kafka checks only the targets of the member that joined: if another
    member has not yet given up a partition, two members then own it.
    """
    gone = {joined.member_id}
    if joined.metadata.classic is not None:
        return None
    if not may_downgrade(step, group, gone, len(group.members)):
        return None
    name = who(joined.member_id, joined.metadata)
    why = f"the last member with group.protocol=consumer, {name}, rejoined as a classic member"
    rebalance = None
    if not _is_settled(group, joined, updated):
        rebalance = Cause.METADATA_CHANGED, f"{name} rejoined with group.protocol=classic"
    old = joined.metadata
    metadata = replace(updated, client_id=old.client_id, client_host=old.client_host)
    left = remaining(group, gone)
    left.append(Remaining(joined.member_id, metadata, joined.current))
    return downgrade(step, group, left, why, rebalance)


def remaining(group: ConsumerGroup, gone: Collection[str]) -> list[Remaining]:
    return [
        Remaining(name, each.metadata, each.current)
        for name, each in group.members.items()
        if name not in gone
    ]


def _is_settled(group: ConsumerGroup, joined: ConsumerMember, updated: MemberMetadata) -> bool:
    """Returns whether all members own the partitions of their targets, and the joining member
    subscribes to the same topics as before."""
    epoch = group.epoch.epoch
    return (
        not group.refresh_wanted
        and group.target_epoch.epoch == epoch
        and not joined.metadata.subscribed_regex
        and joined.metadata.subscribed_topics == updated.subscribed_topics
        and all(
            each.current.state == MemberState.STABLE
            and (each.current.epoch == epoch or (each is joined and each.is_away))
            for each in group.members.values()
        )
    )


def _classic_group(step: Step, group: ConsumerGroup, left: Sequence[Remaining]) -> Group:
    names = step.state.topics.names
    offers = [each.metadata.classic.protocols for each in left if each.metadata.classic]
    protocol = vote(offers)
    members = []
    for each in left:
        metadata, classic = each.metadata, each.metadata.classic
        assert classic is not None
        subscription = dict(classic.protocols)[protocol]
        assignment = encode_assignment(
            {names[id_]: numbers for id_, numbers in _held(each.current).items() if id_ in names},
            read_subscription(subscription).version,
        )
        members.append(
            GroupMember(
                each.member_id,
                metadata.instance_id,
                metadata.client_id,
                metadata.client_host,
                metadata.rebalance_timeout_ms,
                classic.session_timeout_ms,
                subscription,
                assignment,
            )
        )
    leader, now = left[0].member_id, step.now
    value = GroupValue(CONSUMER, group.epoch.epoch, protocol, leader, now.wall_ms, members)
    restored = Group.restored(group.group_id, value, -1)
    restored.state_since_ms = now.mono_ms
    for each, offer in zip(left, offers, strict=True):
        restored.set_protocols(restored.members[each.member_id], offer)
    return restored


def _held(current: CurrentAssignment) -> dict[bytes, list[int]]:
    """Returns the partitions that the member may own: the assigned partitions, and the partitions
    that it has not given up yet.

    In the record of the classic group, these partitions are the member's assignment. Kafka writes
    the member's target assignment instead. If a group in Kafka is then upgraded again before the
    member has rejoined, another member may get partitions that this member still owns.
    """
    held: dict[bytes, list[int]] = {}
    for side in (current.assigned, current.revoking):
        for topic_id, epochs in side.items():
            held[topic_id] = sorted({*held.get(topic_id, ()), *epochs})
    return held
