"""Test commands on a consumer group, for a broker in test mode; `coordinator/on_command.py`
describes the commands."""

from __future__ import annotations

from dataclasses import replace

from coordinator.consumer.advance import Admitted, advance
from coordinator.consumer.changes import Changes
from coordinator.consumer.events import EpochBumped, EpochCause
from coordinator.consumer.group import ConsumerGroup, ConsumerMember, session_timeout_ms
from coordinator.consumer.leaving import fence, leave_for_a_while
from coordinator.consumer.refused import Refused
from coordinator.step import Step
from coordinator.wording import seconds
from offsets.consumer_records import ConsumerGroupRun


def rebalance(step: Step, group: ConsumerGroup, why: str) -> None:
    """Raises the group epoch, so that the next heartbeat of the group computes a new target
    assignment."""
    changes = Changes(group)
    changes.bump(changes.metadata_hash(step.state.topics))
    group.changed_ms = step.now.mono_ms
    step.records.append(ConsumerGroupRun(group.group_id, changes.records))
    cause, awaited = EpochCause.ASKED_FOR, changes.awaited()
    step.events.append(EpochBumped(group.group_id, changes.epoch.epoch, cause, "", why, awaited))


def expire(step: Step, group: ConsumerGroup, member: ConsumerMember, why: str) -> None:
    left_ms = member.session.due_ms - step.now.mono_ms
    silent_ms = max(session_timeout_ms(step.state.config, member) - left_ms, 0)
    detail = f"session expired, no heartbeat for {seconds(silent_ms)} ({why})"
    fence(step, group, [member], EpochCause.SESSION_EXPIRED, detail, silent_ms)


def take_over(
    step: Step, group: ConsumerGroup, old: ConsumerMember, member_id: str, client_id: str
) -> None:
    metadata = replace(old.metadata, client_id=client_id)
    advanced = advance(step, Admitted(group, member_id, None, old), metadata, {})
    if not isinstance(advanced, Refused):
        member = advanced.member
        step.arm(member.session, old.session.due_ms - step.now.mono_ms)


def away(step: Step, group: ConsumerGroup, member: ConsumerMember) -> None:
    """Makes a static member leave temporarily, so that a new member with its instance id can
    join."""
    if member.metadata.classic is None:
        leave_for_a_while(step, group, member)
