"""Hosts the consumer groups of a shard: replays their records, handles their timers, and handles
changes of topics."""

from __future__ import annotations

from coordinator.consumer.group import ConsumerGroup, ConsumerMember, session_timeout_ms
from coordinator.consumer.leaving import rebalance_due, session_due
from coordinator.consumer.states import MemberState
from coordinator.step import ShardState, Step
from coordinator.timers import GroupTimer
from offsets.consumer_records import ConsumerGroupRun, EpochRecord, MemberRecord


def replay(state: ShardState, run: ConsumerGroupRun) -> None:
    """Applies records to the group that they belong to. The first record creates the group, the
    last tombstone removes it."""
    groups = state.consumer_groups
    group = groups.get(run.group_id)
    removed: list[ConsumerMember] = []
    for record in run.records:
        if group is None:
            if record.value is None:
                continue  # a tombstone of a group that does not exist
            group = groups[run.group_id] = ConsumerGroup(run.group_id)
        if isinstance(record, MemberRecord) and record.value is None:
            removed += [each for each in (group.members.get(record.member_id),) if each]
        group.fold(record, run.timestamp_ms)
        if isinstance(record, EpochRecord) and record.value is None and not group.members:
            del groups[run.group_id]
            group = None
    for old in removed:
        new = None if group is None else group.members.get(old.member_id)
        if new is None:
            old.session.disarm()
            old.rebalance.disarm()
        else:  # a static member that returned under its own id
            new.session, new.rebalance = old.session, old.rebalance


def fire(step: Step, timer: GroupTimer) -> None:
    """Handles a timer that is due. Does nothing if the timer's member no longer exists."""
    group = step.state.consumer_groups.get(timer.group_id)
    member = None if group is None else group.members.get(timer.member_id)
    if group is None or member is None:
        return
    if timer is member.session:
        session_due(step, group, member)
    elif timer is member.rebalance:
        rebalance_due(step, group, member)


def wake(step: Step, group: ConsumerGroup) -> None:
    """Starts the timers of all members of a group that was loaded from the log. Each timer starts
    with its full timeout."""
    group.changed_ms = step.now.mono_ms
    for member in group.members.values():
        step.arm(member.session, session_timeout_ms(step.state.config, member))
        if member.current.state == MemberState.UNREVOKED:
            step.arm(member.rebalance, max(0, member.metadata.rebalance_timeout_ms))


def topic_changed(state: ShardState, name: str) -> None:
    """Marks each group that subscribes to a changed topic. The next heartbeat of a marked group
    compares the metadata hash."""
    for group in state.consumer_groups.values():
        if not group.refresh_wanted and group.subscribes_to(name):
            group.refresh_wanted = True
