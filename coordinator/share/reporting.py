"""The event that ends a rebalance of a share group. Assignments in the event are encoded as in the
classic consumer protocol."""

from __future__ import annotations

from coordinator.consumer.events import GroupReconciled
from coordinator.events import Assigned, AssignedMember
from coordinator.modern_group_view import encoded
from coordinator.share.changes import ShareChanges
from coordinator.share.group import SHARE
from coordinator.step import Step
from offsets.share_records import ShareCurrentAssignment


def reconciled(
    step: Step, changes: ShareChanges, member_id: str, after: ShareCurrentAssignment
) -> None:
    """Emits GroupReconciled if all members have their target assignments. ``after`` is the new
    assignment of ``member_id``, which is not in the group's state yet."""
    group, epoch = changes.group, changes.target_epoch.epoch
    if epoch < changes.epoch.epoch or after.epoch != epoch:
        return
    currents = {name: each.current for name, each in group.members.items()}
    currents[member_id] = after
    if any(currents[name].epoch != epoch for name in changes.members):
        return
    step.events.append(GroupReconciled(group.group_id, epoch, len(changes.members)))
    names = step.state.topics.names
    assigned = tuple(
        AssignedMember(
            name, None, each.client_id, each.client_host, encoded(currents[name].assigned, names)
        )
        for name, each in changes.members.items()
    )
    step.events.append(Assigned(group.group_id, epoch, SHARE, assigned))
