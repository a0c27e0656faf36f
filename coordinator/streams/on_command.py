"""Test commands on a streams group, for a broker in test mode; `coordinator/on_command.py`
describes the commands."""

from __future__ import annotations

from coordinator.consumer.events import EpochBumped, EpochCause
from coordinator.step import Step
from coordinator.streams.changes import StreamsChanges
from coordinator.streams.group import StreamsGroup, StreamsMember, session_timeout_ms
from coordinator.streams.leaving import fence
from coordinator.wording import seconds
from offsets.streams_records import StreamsGroupRun


def rebalance(step: Step, group: StreamsGroup, why: str) -> None:
    """Raises the group epoch, so that the next heartbeat of the group computes a new target
    assignment."""
    changes = StreamsChanges(group)
    changes.bump()
    group.changed_ms = step.now.mono_ms
    step.records.append(StreamsGroupRun(group.group_id, changes.records, step.now.wall_ms))
    cause, awaited = EpochCause.ASKED_FOR, tuple(group.members)
    step.events.append(EpochBumped(group.group_id, changes.epoch.epoch, cause, "", why, awaited))


def expire(step: Step, group: StreamsGroup, member: StreamsMember, why: str) -> None:
    left_ms = member.session.due_ms - step.now.mono_ms
    silent_ms = max(session_timeout_ms(step.state.config, member) - left_ms, 0)
    detail = f"session expired, no heartbeat for {seconds(silent_ms)} ({why})"
    fence(step, group, member, EpochCause.SESSION_EXPIRED, detail, silent_ms)
