"""Removes consumer and streams groups without members, because of a DeleteGroups request or because
the retention check found no offsets."""

from __future__ import annotations

from coordinator.calls import Ticket
from coordinator.classic.sweeps import EVERY_LOG_OFFSET, OffsetsDropped
from coordinator.consumer import deletion as consumer
from coordinator.consumer.group import ConsumerGroup
from coordinator.events import Cause, GroupRemoved
from coordinator.step import CommittingGroup, Step, Sweep
from offsets.runs import GroupStateRun
from protocol.errors import NON_EMPTY_GROUP, NONE


def tombstones(group: CommittingGroup) -> GroupStateRun:
    if isinstance(group, ConsumerGroup):
        return consumer.tombstones(group)
    from coordinator.streams import deletion as streams

    return streams.tombstones(group)


def remove(step: Step, group: CommittingGroup, cause: Cause) -> None:
    """Writes the tombstones of a group without members, and emits the event of its removal."""
    step.records.append(tombstones(group))
    step.events.append(GroupRemoved(group.group_id, cause))
    step.state.forget_expiring(group.group_id)


class GroupRecordsDeleted(Sweep):
    """The deletion of an empty group: first its offsets, then its records.

    If a member joins during the deletion, the deletion ends with NON_EMPTY_GROUP. If another step
    removes the group first, the deletion ends without an error. Then a new group with the same id
    stays unchanged.
    """

    def __init__(self, step: Step, group: CommittingGroup, ticket: Ticket) -> None:
        self.ticket = ticket
        self._group = group
        topics = [
            (topic, EVERY_LOG_OFFSET) for topic in step.state.cache.topics_to_delete(group.group_id)
        ]
        self._offsets = OffsetsDropped(group.group_id, topics)

    def piece(self, step: Step) -> int:
        group = self._group
        if step.state.committing_group(group.group_id) is not group:
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
