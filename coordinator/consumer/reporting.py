"""The events of a step of a consumer group: the cause of a new epoch, the moved partitions, and the
end of a rebalance."""

from __future__ import annotations

from coordinator.consumer.changes import Changes
from coordinator.consumer.events import EpochBumped, EpochCause, GroupReconciled
from coordinator.consumer.states import MemberState
from coordinator.consumer.wording import who
from coordinator.events import Assigned, AssignedMember
from coordinator.modern_group_view import encoded
from coordinator.step import Step
from offsets.consumer_records import CurrentAssignment, MemberMetadata
from protocol.consumer_protocol import CONSUMER


def epoch_bumped(
    step: Step,
    changes: Changes,
    member_id: str,
    metadata: MemberMetadata,
    *,
    subscription_changed: bool,
) -> None:
    """Emits the event that a member's request raised the epoch. The cause is that the member
    joined, that its subscription changed, or that a topic changed."""
    group = changes.group
    name = who(member_id, metadata)
    if member_id not in group.members:
        cause, detail = EpochCause.MEMBER_JOINED, f"{name} joined"
    elif subscription_changed:
        cause, detail = EpochCause.SUBSCRIPTION_CHANGED, f"{name} changed its subscription"
    else:
        cause, member_id = EpochCause.TOPICS_CHANGED, ""
        detail = "a subscribed topic was created, deleted or given more partitions"
    awaited = changes.awaited(without=member_id)
    step.events.append(
        EpochBumped(group.group_id, changes.epoch.epoch, cause, member_id, detail, awaited)
    )


def reconciled(step: Step, changes: Changes, member_id: str, after: CurrentAssignment) -> None:
    """Emits the events about a group that becomes stable, if the new assignment ``after`` of this
    member is the last one that the group waits for."""
    group, epoch = changes.group, changes.target_epoch.epoch
    if epoch < changes.epoch.epoch:
        return
    if after.epoch != epoch or after.state != MemberState.STABLE:
        return
    behind = group.behind() if epoch == group.target_epoch.epoch else group.members
    if any(name != member_id and changes.has(name) for name in behind):
        return
    currents = {name: each.current for name, each in group.members.items()}
    currents[member_id] = after
    members = changes.members()
    step.events.append(GroupReconciled(group.group_id, epoch, len(members)))
    names = step.state.topics.names
    assigned = tuple(
        AssignedMember(
            name,
            metadata.instance_id,
            metadata.client_id,
            metadata.client_host,
            encoded(currents[name].assigned, names),
        )
        for name, metadata in members.items()
    )
    step.events.append(Assigned(group.group_id, epoch, CONSUMER, assigned))
