"""Test commands on a group, for a broker in test mode.

The commands call the same functions as production code. Each command is passed to `GroupShard.do`.
The caller has checked in the same turn that the group's state allows the command. The journal
records that a test requested the change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coordinator.calls import JoinGroup
from coordinator.classic.rebalance import after_removal, prepare
from coordinator.classic.static_members import replace
from coordinator.consumer import on_command as consumer
from coordinator.events import Cause
from coordinator.share import on_command as share
from coordinator.step import Step
from coordinator.wording import named, seconds

OnStep = Callable[[Step], object]
Work = Callable[[], object]

_ASKED = "requested by a test"
TAKEN_OVER_BY = "a test"
"""The client id of the member that the command `fence` adds."""


def rebalance(step: Step, group_id: str) -> None:
    """Begins a rebalance of a group. In a classic group, each member gets REBALANCE_IN_PROGRESS at
    its next heartbeat, and rejoins. In a consumer, share or streams group, the group epoch rises
    and a new target assignment is computed; a member keeps the partitions or tasks that are also in
    its new target."""
    consumers = step.state.consumer_groups.get(group_id)
    if consumers is not None:
        return consumer.rebalance(step, consumers, _ASKED)
    if group_id in step.state.share_groups:
        return share.rebalance(step, step.state.share_groups[group_id], _ASKED)
    if group_id in step.state.streams_groups:
        from coordinator.streams import on_command as streams

        return streams.rebalance(step, step.state.streams_groups[group_id], _ASKED)
    return prepare(step, step.state.groups[group_id], Cause.ASKED_FOR, _ASKED)


def expire(step: Step, group_id: str, member_id: str) -> None:
    """Ends a member's session before its timeout. A parked request of the member gets a reply."""
    consumers = step.state.consumer_groups.get(group_id)
    if consumers is not None:
        return consumer.expire(step, consumers, consumers.members[member_id], _ASKED)
    if group_id in step.state.share_groups:
        shares = step.state.share_groups[group_id]
        return share.expire(step, shares, shares.members[member_id], _ASKED)
    if group_id in step.state.streams_groups:
        from coordinator.streams import on_command as streams

        tasks = step.state.streams_groups[group_id]
        return streams.expire(step, tasks, tasks.members[member_id], _ASKED)
    group = step.state.groups[group_id]
    member = group.members[member_id]
    if member.waits:
        silent_ms = -1
        what = f"session expired ({_ASKED})"
    else:
        left_ms = member.session.due_ms - step.now.mono_ms
        silent_ms = max(member.session_timeout_ms - left_ms, 0)
        what = f"session expired, no heartbeat for {seconds(silent_ms)} ({_ASKED})"
    detail = f"session of {named(member)} expired ({_ASKED})"
    step.remove(group, member, Cause.SESSION_EXPIRED, what, silent_ms)
    return after_removal(step, group, Cause.SESSION_EXPIRED, detail, member.member_id)


def fence(step: Step, group_id: str, instance_id: str, fresh_id: str) -> None:
    """Fences a static member: adds a new member with the same instance id.

    No client uses the new member, so its session expires, unless a client joins with the instance
    id before. In a consumer group, a client can join with the instance id only after `released` was
    called.
    """
    consumers = step.state.consumer_groups.get(group_id)
    if consumers is not None:
        fenced = consumers.members[consumers.static_members[instance_id]]
        member_id = f"{instance_id}-{fresh_id}"
        return consumer.take_over(step, consumers, fenced, member_id, TAKEN_OVER_BY)
    group = step.state.groups[group_id]
    old = group.members[group.static_members[instance_id]]
    call = JoinGroup(
        ticket=_Nobody(),
        group_id=group_id,
        member_id="",
        group_instance_id=instance_id,
        client_id=TAKEN_OVER_BY,
        client_host=old.client_host,
        session_timeout_ms=old.session_timeout_ms,
        rebalance_timeout_ms=old.rebalance_timeout_ms,
        protocol_type=group.protocol_type or "",
        protocols=old.protocols,
        reason=None,
        member_id_required=False,
        supports_skip_assignment=True,
        fresh_id=fresh_id,
    )
    return replace(step, group, call, old, f"{instance_id}-{fresh_id}")


def released(step: Step, group_id: str, instance_id: str) -> None:
    """Makes a static member of a consumer group leave temporarily. ``instance_id`` is the instance
    id of this member, which `fence` has added. Does nothing in a classic group."""
    group = step.state.consumer_groups.get(group_id)
    if group is not None:
        consumer.away(step, group, group.members[group.static_members[instance_id]])


class _Nobody:
    """The ticket of a request that the broker has created itself. Its reply is discarded."""

    def take(self, reply: Any) -> None: ...
