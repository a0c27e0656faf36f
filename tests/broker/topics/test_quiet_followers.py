"""Idle followers: in-sync followers that have all records of a partition. The leader wakes them
when the partition changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from replication.leader import NEVER
from tests.broker.partitions import state
from tests.broker.topics.test_partition_roles import House


class WakeRecorder:
    """A fake fetch session of a follower that records the wakes of its partition."""

    def __init__(self) -> None:
        self.used_ms = 0
        self.wakes: list[bool] = []

    def stirred(self, wanted: Any, *, wake: bool) -> None:
        assert wanted == "wanted"
        self.wakes.append(wake)


class Quiet(House):
    """A partition leader with two followers. Broker 2 is idle and has all records. Broker 3 has not
    fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.replica.lead(state())
        self.append(2)
        self.replica.follower_fetched(2, 2)
        self.session = WakeRecorder()
        assert self.quieten(2)

    def quieten(self, replica_id: int) -> bool:
        led = self.replica.led
        assert led is not None
        return self.replica.quiet.add(led, replica_id, self.session, "wanted")


def deleted(house: Quiet) -> None:
    house.replica.follower_fetched(3, 1)
    house.session.wakes.clear()  # the wakes that the new high watermark caused
    assert house.replica.delete_records(1) == 1


@pytest.mark.parametrize(
    ("happens", "wakes", "stays"),
    [
        (lambda house: house.append(), [True], False),
        (lambda house: house.replica.lead(state(partition_epoch=1)), [True], True),
        (lambda house: house.replica.lead(state(leader_epoch=1)), [True], True),
        (lambda house: house.replica.follow(state(2, 1)), [True], True),
        (lambda house: house.replica.offline(), [True], True),
        (lambda house: house.replica.follower_fetched(3, 2), [False], True),
        (lambda house: house.replica.follower_fetched(3, 0), [], True),
        (lambda house: house.replica.tick(), [], True),
        (deleted, [False], True),
    ],
)
async def test_idle_follower_is_woken_when_its_partition_changes(
    happens: Callable[[Quiet], Any], wakes: list[bool], stays: bool
) -> None:
    house = Quiet()
    happens(house)
    assert house.session.wakes == wakes
    assert (2 in house.replica.quiet) is stays


async def test_idle_follower_is_woken_by_a_high_watermark_change_and_by_an_append() -> None:
    house = Quiet()
    house.replica.follower_fetched(3, 2)
    house.append()
    assert house.session.wakes == [False, True]


async def test_follower_outside_the_isr_does_not_become_idle() -> None:
    house = Quiet()
    house.replica.lead(state(isr=(1, 2), partition_epoch=1))
    assert not house.quieten(3)
    house.replica.follower_fetched(3, 2)
    assert house.isr.asked == [((1, 2, 3), 1)]
    assert not house.quieten(2)
    house.replica.isr_written(2)
    assert house.quieten(3)


async def test_idle_follower_leaves_isr_after_replica_lag_time_max_since_last_request() -> None:
    """While a follower is idle, each request of its fetch session counts as a fetch at the log end
    offset."""
    house = Quiet()
    house.replica.follower_fetched(3, 2)
    assert house.quieten(3)
    led = house.replica.led
    assert led is not None
    lag_ms = led.rules.lag_time_max_ms
    for _ in range(3):  # the follower is idle for long, without a read
        house.time.mono_ms += lag_ms
        house.replica.tick()
    assert house.isr.asked == []
    house.session.used_ms = house.time.mono_ms
    house.time.mono_ms += 400
    house.append()
    assert [each.fetched_ms for each in led.followers.values()] == [house.session.used_ms] * 2
    house.time.mono_ms = house.session.used_ms + lag_ms
    house.replica.tick()
    assert house.isr.asked == []
    house.time.mono_ms += 1
    house.replica.tick()
    assert house.isr.asked == [((1,), 0)]


async def test_last_fetch_time_of_a_follower_is_not_lowered_by_an_older_fetch_session() -> None:
    house = Quiet()
    house.replica.follower_fetched(3, 2)
    house.session.used_ms = house.time.mono_ms
    house.time.mono_ms += 100
    house.replica.follower_fetched(2, 2)  # in another session
    heard_ms = house.time.mono_ms
    house.append()
    led = house.replica.led
    assert led is not None
    assert (led.followers[2].fetched_ms, led.followers[2].caught_up_ms) == (heard_ms, heard_ms)


async def test_idle_follower_that_left_the_isr_does_not_count_as_caught_up() -> None:
    house = Quiet()
    house.replica.follower_fetched(3, 2)
    house.replica.lead(state(isr=(1, 3), leader_epoch=1))
    house.session.used_ms = house.time.mono_ms = house.time.mono_ms + 100
    house.append()
    led = house.replica.led
    assert led is not None
    assert led.followers[2].caught_up_ms == NEVER
