"""Hosts the share groups of a shard: replays their records, handles their timers, and handles
changes of topics."""

from __future__ import annotations

from coordinator.share import initialization
from coordinator.share.group import ShareGroup, session_timeout_ms
from coordinator.share.leaving import session_due
from coordinator.step import ShardState, Step
from coordinator.timers import GroupTimer
from offsets.share_records import ShareEpochRecord, ShareGroupRun, ShareMemberRecord

_GROUPS_PER_STEP = 100
"""The maximum number of groups from which one step removes deleted topics."""


def replay(state: ShardState, run: ShareGroupRun) -> None:
    """Applies records to the group that they belong to. The first record creates the group, the
    last tombstone removes it."""
    groups = state.share_groups
    group = groups.get(run.group_id)
    for record in run.records:
        if group is None:
            if record.value is None:
                continue  # a tombstone of a group that does not exist
            group = groups[run.group_id] = ShareGroup(run.group_id)
        if isinstance(record, ShareMemberRecord) and record.value is None:
            removed = group.members.get(record.member_id)
            if removed is not None:
                removed.session.disarm()
        group.fold(record, run.timestamp_ms)
        if isinstance(record, ShareEpochRecord) and record.value is None and not group.members:
            del groups[run.group_id]
            group = None


def fire(step: Step, timer: GroupTimer) -> None:
    """Handles a timer that is due. Does nothing if the timer's member no longer exists."""
    group = step.state.share_groups.get(timer.group_id)
    member = None if group is None else group.members.get(timer.member_id)
    if group is not None and member is not None and timer is member.session:
        session_due(step, group, member)


def wake(step: Step, group: ShareGroup) -> None:
    """Starts the session of each member of a loaded group, with the full session timeout."""
    group.changed_ms = step.now.mono_ms
    for member in group.members.values():
        step.arm(member.session, session_timeout_ms(step.state.config, member))


def topic_changed(state: ShardState, name: str) -> None:
    """Marks each group that subscribes to a changed topic. The next heartbeat of a marked group
    compares the metadata hash."""
    for group in state.share_groups.values():
        if group.subscribes_to(name):
            group.refresh_wanted = True


def drop_deleted_topics(step: Step) -> bool:
    """Removes deleted topics from the stored partitions of share groups, for at most
    `_GROUPS_PER_STEP` groups. Returns True if more groups may have deleted topics."""
    changed = 0
    for group in step.state.share_groups.values():
        if group.stale_topics(step.state.topics):
            if changed == _GROUPS_PER_STEP:
                return True
            initialization.topics_deleted(step, group)
            changed += 1
    return False
