"""DescribeGroups and ListGroups, and the counts that metrics show."""

from __future__ import annotations

from coordinator.calls import DescribeGroup, ListGroups, Now
from coordinator.group import Group
from coordinator.outcome import (
    DescribedMember,
    DescribeReply,
    ListedGroup,
    ListReply,
    Outcome,
    answered,
)
from coordinator.states import State, state_filter
from coordinator.step import ShardState
from protocol.errors import NONE

CLASSIC = "classic"
"""The type of every group here, as ListGroups v5 names it."""


def describe(state: ShardState, call: DescribeGroup, now: Now) -> Outcome:  # noqa: ARG001
    """A group as it is; one that does not exist is "Dead", without error."""
    group = state.groups.get(call.group_id)
    if group is None:
        reply = DescribeReply(NONE, call.group_id)
    else:
        match group.state:
            case State.STABLE:
                reply = _described(group, group.protocol_name)
            case State.EMPTY | State.PREPARING_REBALANCE | State.AWAITING_SYNC:
                reply = _described(group, None)
            case State.DEAD:
                reply = DescribeReply(NONE, call.group_id)
    return answered(call.ticket, reply)


def _described(group: Group, protocol_name: str | None) -> DescribeReply:
    """Metadata and assignments are shown where they hold: with the protocol of a STABLE group."""
    members = [
        DescribedMember(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            b"" if protocol_name is None else member.metadata(protocol_name),
            b"" if protocol_name is None else member.assignment,
        )
        for member in group.members.values()
    ]
    return DescribeReply(
        NONE,
        group.group_id,
        group.state.value,
        group.protocol_type or "",
        protocol_name or "",
        members,
    )


def list_groups(state: ShardState, call: ListGroups, now: Now) -> Outcome:  # noqa: ARG001
    """The groups of this shard that match the filters; DEAD ones are not listed."""
    states = state_filter(call.states) if call.states else frozenset(State)
    if call.types and CLASSIC not in {name.lower() for name in call.types}:
        states = frozenset()
    groups = [
        ListedGroup(group.group_id, group.protocol_type or "", group.state.value, CLASSIC)
        for group in state.groups.values()
        if group.state in states and group.state is not State.DEAD
    ]
    return answered(call.ticket, ListReply(NONE, groups))


def counts(state: ShardState) -> tuple[dict[str, int], int]:
    """Groups by state (every state named) and members in all."""
    by_state = {each.value: 0 for each in State}
    members = 0
    for group in state.groups.values():
        by_state[group.state.value] += 1
        members += len(group.members)
    return by_state, members
