"""Downgrade: a consumer group whose members are all classic becomes a classic group again.

The generation of the classic group is the epoch of the consumer group. A rebalance follows if a
member left.

Source: KIP-848, "Online migration"; Kafka 4.3.1 ``GroupMetadataManager.convertToClassicGroup``.
"""

from __future__ import annotations

from collections.abc import Collection

from coordinator.classic.group import Group, vote
from coordinator.classic.rebalance import prepare
from coordinator.config import DOWNGRADES
from coordinator.consumer.deletion import tombstones
from coordinator.consumer.group import ConsumerGroup, ConsumerMember
from coordinator.events import Cause, GroupConverted
from coordinator.step import Step
from offsets.runs import GroupMember, GroupValue
from protocol.consumer_protocol import CONSUMER, encode_assignment, read_subscription


def may_downgrade(step: Step, group: ConsumerGroup, without: Collection[str]) -> bool:
    """Returns whether the settings allow a downgrade, and all members are classic except the
    members in ``without``."""
    config = step.state.config
    left = len(group.members) - len(without)
    return (
        0 < left <= config.max_size
        and config.consumer_migration_policy in DOWNGRADES
        and all(
            each.metadata.classic is not None or name in without
            for name, each in group.members.items()
        )
    )


def downgrade(
    step: Step, group: ConsumerGroup, without: Collection[str], cause: Cause, detail: str
) -> None:
    """Writes a classic group with the members that are not in ``without``, and begins its
    rebalance."""
    left = [each for name, each in group.members.items() if name not in without]
    classic = _classic_group(step, group, left)
    step.records += (tombstones(group), classic.run())
    step.state.groups[group.group_id] = classic
    for member in left:
        known = classic.members[member.member_id]
        step.arm(known.session, known.session_timeout_ms)
        member.session.disarm()
        member.rebalance.disarm()
    generation = classic.generation_id
    why = "the last member with group.protocol=consumer left"
    step.events.append(GroupConverted(group.group_id, "classic", generation, why))
    prepare(step, classic, cause, detail)


def _classic_group(step: Step, group: ConsumerGroup, left: list[ConsumerMember]) -> Group:
    names = step.state.topics.names
    offers = [each.metadata.classic.protocols for each in left if each.metadata.classic]
    protocol = vote(offers)
    members = []
    for each in left:
        metadata, classic = each.metadata, each.metadata.classic
        assert classic is not None
        subscription = dict(classic.protocols)[protocol]
        assignment = encode_assignment(
            {names[id_]: numbers for id_, numbers in _held(each).items() if id_ in names},
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


def _held(member: ConsumerMember) -> dict[bytes, list[int]]:
    """Returns the partitions that the member may own: assigned, or not yet given up.

    Kafka writes the member's target. If the group is upgraded again before the member has rejoined,
    another member then receives partitions that this member still owns.
    """
    held: dict[bytes, list[int]] = {}
    for side in (member.current.assigned, member.current.revoking):
        for topic_id, epochs in side.items():
            held[topic_id] = sorted({*held.get(topic_id, ()), *epochs})
    return held
