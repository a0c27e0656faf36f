"""Hosts the streams groups of a shard: replays their records, handles their timers, and handles
changes of topics.

The code of streams groups is imported only when the first call or record of a streams group needs
it.
"""

from __future__ import annotations

from coordinator.outcome import Outcome
from coordinator.step import ShardState, Step
from coordinator.streams.calls import StreamsGroupDescribe, StreamsHeartbeat
from coordinator.streams.group import StreamsGroup, session_timeout_ms
from coordinator.streams.states import MemberState, StreamsGroupState
from coordinator.timers import GroupTimer
from offsets.streams_records import StreamsEpochRecord, StreamsGroupRun, StreamsMemberRecord
from protocol.now import Now


def replay(state: ShardState, run: StreamsGroupRun) -> None:
    """Applies records to the group that they belong to. The first record creates the group, the
    last tombstone removes it."""
    groups = state.streams_groups
    group = groups.get(run.group_id)
    for record in run.records:
        if group is None:
            if record.value is None:
                continue  # a tombstone of a group that does not exist
            group = groups[run.group_id] = StreamsGroup(run.group_id)
        if isinstance(record, StreamsMemberRecord) and record.value is None:
            removed = group.members.get(record.member_id)
            if removed is not None:
                removed.session.disarm()
                removed.rebalance.disarm()
        group.fold(record, run.timestamp_ms)
        if isinstance(record, StreamsEpochRecord) and record.value is None and not group.members:
            group.initial_delay.disarm()
            del groups[run.group_id]
            group = None


def heartbeat(state: ShardState, call: StreamsHeartbeat, now: Now) -> Outcome:
    from coordinator.streams.heartbeat import handle

    return handle(state, call, now)


def describe(state: ShardState, call: StreamsGroupDescribe, now: Now) -> Outcome:
    from coordinator.streams.views import describe as described

    return described(state, call, now)


def fire(step: Step, timer: GroupTimer) -> None:
    """Handles a timer that is due. Does nothing if the timer's member or group no longer exists."""
    group = step.state.streams_groups.get(timer.group_id)
    if group is None:
        return
    from coordinator.streams.advance import end_initial_delay
    from coordinator.streams.leaving import rebalance_due, session_due

    if timer is group.initial_delay:
        end_initial_delay(step, group)
        return
    member = group.members.get(timer.member_id)
    if member is None:
        return
    if timer is member.session:
        session_due(step, group, member)
    elif timer is member.rebalance:
        rebalance_due(step, group, member)


def wake(step: Step, group: StreamsGroup) -> None:
    """Starts the timers of a loaded group, each with its full timeout."""
    now = step.now
    group.changed_ms = now.mono_ms
    if group.state() is StreamsGroupState.NOT_READY:
        wall_ms = now.wall_ms if group.epoch_ms < 0 else group.epoch_ms
        group.not_ready_since = Now(now.mono_ms, wall_ms)
    for member in group.members.values():
        step.arm(member.session, session_timeout_ms(step.state.config, member))
        if member.current.state == MemberState.UNREVOKED:
            step.arm(member.rebalance, max(0, member.metadata.rebalance_timeout_ms))


def topic_changed(state: ShardState, name: str) -> None:
    """Marks each group whose topology has a changed topic. The next heartbeat of a marked group
    compares the metadata hash."""
    for group in state.streams_groups.values():
        if not group.refresh_wanted and group.uses(name):
            group.refresh_wanted = True
