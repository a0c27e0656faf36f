"""Emits the event that reports the end of a rebalance of a streams group. The event contains the
partitions that each member's active tasks read, encoded as in the classic consumer protocol."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from coordinator.consumer.events import GroupReconciled
from coordinator.events import Assigned, AssignedMember
from coordinator.step import Step
from coordinator.streams.changes import StreamsChanges
from coordinator.streams.group import StreamsGroup
from coordinator.streams.inputs import inputs
from coordinator.streams.states import STABLE
from coordinator.topics_image import TopicsImage
from offsets.streams_records import StreamsCurrentAssignment
from protocol.consumer_protocol import CONSUMER, encode_assignment


def encoded(group: StreamsGroup, tasks: Mapping[str, Collection[int]], image: TopicsImage) -> bytes:
    """Returns the partitions that the active tasks ``tasks`` read, encoded as an assignment of the
    classic consumer protocol."""
    return encode_assignment(inputs(group, tasks, image))


def reconciled(
    step: Step, changes: StreamsChanges, member_id: str, after: StreamsCurrentAssignment
) -> None:
    """Emits GroupReconciled if all members have reached their targets. ``after`` is the new
    assignment of ``member_id``, which is not in the group's state yet."""
    group, epoch = changes.group, changes.target_epoch.epoch
    if epoch < changes.epoch.epoch:
        return
    currents = {name: each.current for name, each in group.members.items()}
    currents[member_id] = after
    if any(
        currents[name].epoch != epoch or currents[name].state != STABLE for name in changes.members
    ):
        return
    step.events.append(GroupReconciled(group.group_id, epoch, len(changes.members)))
    image = step.state.topics
    assigned = tuple(
        AssignedMember(
            name,
            None,
            each.client_id,
            each.client_host,
            encoded(group, currents[name].active, image),
        )
        for name, each in changes.members.items()
    )
    step.events.append(Assigned(group.group_id, epoch, CONSUMER, assigned))
