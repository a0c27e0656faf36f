"""Test commands on a share group, for a broker in test mode; `coordinator/on_command.py` describes
the commands."""

from __future__ import annotations

from coordinator.consumer.events import EpochBumped, EpochCause
from coordinator.share.changes import ShareChanges
from coordinator.share.group import SHARE, ShareGroup, ShareMember, session_timeout_ms
from coordinator.share.leaving import fence
from coordinator.step import Step
from coordinator.wording import seconds
from offsets.share_records import ShareGroupRun


def rebalance(step: Step, group: ShareGroup, why: str) -> None:
    """Raises the epoch, so that the next heartbeat of the group computes the target again."""
    changes = ShareChanges(group)
    changes.bump(step.state.topics.metadata_hash(changes.names()))
    group.changed_ms = step.now.mono_ms
    step.records.append(ShareGroupRun(group.group_id, changes.records, step.now.wall_ms))
    cause, awaited = EpochCause.ASKED_FOR, tuple(group.members)
    step.events.append(
        EpochBumped(group.group_id, changes.epoch.epoch, cause, "", why, awaited, SHARE)
    )


def expire(step: Step, group: ShareGroup, member: ShareMember, why: str) -> None:
    left_ms = member.session.due_ms - step.now.mono_ms
    silent_ms = max(session_timeout_ms(step.state.config, member) - left_ms, 0)
    detail = f"session expired, no heartbeat for {seconds(silent_ms)} ({why})"
    fence(step, group, member, EpochCause.SESSION_EXPIRED, detail, silent_ms)
