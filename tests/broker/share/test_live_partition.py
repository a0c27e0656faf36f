"""Tests of share partitions in memory: which changes of the leader epoch drop a share partition,
and lookups by group and by topic partition."""

from __future__ import annotations

from typing import Any

import pytest

from broker.share.live_partition import LivePartition, LivePartitions
from protocol.errors import NONE, NOT_LEADER_OR_FOLLOWER
from protocol.now import Now
from share.values import SharePartitionKey


class Log:
    def __init__(self, index: int = 0) -> None:
        self.topic, self.index = "t", index
        self.leader_epoch = 5
        self.error_code = NONE

    def serving_error(self, _: int) -> int:
        return self.error_code


def live_of(log: Any, group_id: str = "g") -> LivePartition:
    return LivePartition(SharePartitionKey(group_id, b"t" * 16, log.index), log, Now(0, 0))


@pytest.mark.parametrize(("epoch", "is_kept"), [(5, True), (6, True), (7, False), (4, False)])
async def test_share_partition_stays_loaded_only_if_no_other_broker_can_have_led_it(
    epoch: int, is_kept: bool
) -> None:
    log: Any = Log()
    live = live_of(log)
    log.leader_epoch = epoch
    assert live.follow_leader_epoch(log) is is_kept
    assert live.leader_epoch == (epoch if is_kept else 5)


async def test_share_partition_is_unloaded_when_its_log_is_replaced_or_another_broker_leads() -> (
    None
):
    log, other = Log(), Log()
    live = live_of(log)
    assert not live.follow_leader_epoch(other)  # type: ignore[arg-type]
    assert not live.follow_leader_epoch(None)
    log.error_code = NOT_LEADER_OR_FOLLOWER
    assert not live.follow_leader_epoch(log)  # type: ignore[arg-type]


async def test_share_partitions_are_found_by_group_and_by_topic_partition() -> None:
    lives = LivePartitions()
    first, second = Log(0), Log(1)
    g0, g1, h0 = live_of(first), live_of(second), live_of(first, "h")
    for live in (g0, g1, h0):
        lives.add(live)
    assert list(lives.of_group("g")) == [g0, g1]
    assert lives.of_log("t", 0) == [g0, h0]
    lives.remove(g0)
    lives.remove(live_of(first, "h"))  # another object with the same key
    assert lives.get(g0.key) is None
    assert lives.of_log("t", 0) == [h0]
    assert (len(lives), list(lives)) == (2, [g1, h0])
