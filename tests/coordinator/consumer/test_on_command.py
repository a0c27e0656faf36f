"""The commands of test mode for consumer groups: rebalance, expire and fence."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from coordinator import on_command
from coordinator.consumer.events import EpochBumped, EpochCause
from coordinator.consumer.states import ConsumerGroupState
from coordinator.step import Step
from protocol.errors import FENCED_INSTANCE_ID, NONE, UNKNOWN_MEMBER_ID
from tests.coordinator.consumer.groups import GROUP, Groups, T


def do(groups: Groups, work: Callable[..., object], **fields: Any) -> list[object]:
    run: Callable[[Step], object] = partial(work, group_id=GROUP, **fields)
    return list(groups.take(groups.shard.do(run, groups.now)).events)


def test_rebalance_command_raises_the_epoch_and_moves_no_partition() -> None:
    groups = Groups()
    groups.join("a")
    [event] = do(groups, on_command.rebalance)
    assert isinstance(event, EpochBumped)
    assert (event.epoch, event.cause, event.awaited) == (3, EpochCause.ASKED_FOR, ("a",))
    reply = groups.send("a", 2)
    assert (reply.member_epoch, reply.assignment) == (3, None)
    assert groups.group.state() is ConsumerGroupState.STABLE
    groups.check_loaded()


def test_partitions_move_when_a_command_ends_the_session_of_their_member() -> None:
    groups = Groups()
    groups.join("a")
    groups.join("b")
    do(groups, on_command.expire, member_id="a")
    assert groups.send("a", 2).error_code == UNKNOWN_MEMBER_ID
    assert groups.send("b", 3).assignment == {T: (0, 1)}
    groups.check_loaded()


def test_member_fenced_by_a_command_gets_fenced_instance_id() -> None:
    groups = Groups()
    groups.join("a", instance_id="i")
    do(groups, on_command.fence, instance_id="i", fresh_id="x")
    assert list(groups.group.members) == ["i-x"]
    assert groups.group.members["i-x"].current.assigned == {T: {0: 2, 1: 2}}
    assert groups.send("a", 2, instance_id="i").error_code == FENCED_INSTANCE_ID
    do(groups, on_command.released, instance_id="i")
    reply = groups.join("b", instance_id="i")
    assert (reply.error_code, reply.assignment) == (NONE, {T: (0, 1)})
    groups.check_loaded()


@pytest.mark.parametrize("is_released", [False, True])
def test_member_created_by_the_fence_command_is_removed_at_session_expiry(
    is_released: bool,
) -> None:
    groups = Groups()
    groups.join("a", instance_id="i")
    do(groups, on_command.fence, instance_id="i", fresh_id="x")
    if is_released:
        do(groups, on_command.released, instance_id="i")
    groups.pass_ms(45_000)
    assert groups.group.members == {}
