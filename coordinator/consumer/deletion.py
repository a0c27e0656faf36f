"""Deletes consumer groups: on DeleteGroups, or when a classic member joins an empty consumer group.

Source: Kafka 4.3.1 ``ConsumerGroup.createGroupTombstoneRecords``.
"""

from __future__ import annotations

from coordinator.calls import Ticket
from coordinator.classic.sweeps import EVERY_LOG_OFFSET, OffsetsDropped
from coordinator.consumer.group import ConsumerGroup
from coordinator.events import Cause, GroupRemoved
from coordinator.step import Step, Sweep
from offsets.consumer_records import (
    ConsumerGroupRun,
    ConsumerRecord,
    CurrentRecord,
    EpochRecord,
    MemberRecord,
    RegexRecord,
    TargetEpochRecord,
    TargetRecord,
    TopicsRecord,
)
from protocol.errors import NON_EMPTY_GROUP, NONE


def tombstones(group: ConsumerGroup) -> ConsumerGroupRun:
    """Returns the tombstones of a group, in the order that Kafka's loader requires: members first.

    Like Kafka, writes tombstones of types 6 and 4 even if the log does not have such records.
    """
    members = sorted(group.members)
    records: list[ConsumerRecord] = [CurrentRecord(member_id, None) for member_id in members]
    records += [TargetRecord(member_id, None) for member_id in members]
    records.append(TargetEpochRecord(None))
    records += [MemberRecord(member_id, None) for member_id in members]
    records += [RegexRecord(regex, None) for regex in sorted(group.regexes)]
    records += (TopicsRecord(), EpochRecord(None))
    return ConsumerGroupRun(group.group_id, records)


def remove(step: Step, group: ConsumerGroup, cause: Cause) -> None:
    """Writes the tombstones of a group without members, and emits its removal."""
    step.records.append(tombstones(group))
    step.events.append(GroupRemoved(group.group_id, cause))
    step.state.forget_expiring(group.group_id)


class ConsumerGroupDeleted(Sweep):
    """The deletion of an empty consumer group: first its offsets, then its records.

    A member that joins during the deletion ends it with NON_EMPTY_GROUP. The group may also have
    been removed during the deletion, and another group may have its id.
    """

    def __init__(self, step: Step, group: ConsumerGroup, ticket: Ticket) -> None:
        self.ticket = ticket
        self._group = group
        topics = [
            (topic, EVERY_LOG_OFFSET) for topic in step.state.cache.topics_to_delete(group.group_id)
        ]
        self._offsets = OffsetsDropped(group.group_id, topics)

    def piece(self, step: Step) -> int:
        """Implements Sweep.piece."""
        group = self._group
        if step.state.consumer_groups.get(group.group_id) is not group:
            step.reply(self.ticket, NONE)
            return 0
        if group.members:
            step.reply(self.ticket, NON_EMPTY_GROUP)
            return 0
        cost = self._offsets.piece(step)
        if not cost:
            self._offsets.emit(step)
            remove(step, group, Cause.DELETED)
            step.reply(self.ticket, NONE)
        return cost
