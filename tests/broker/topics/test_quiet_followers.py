"""Followers that have all of a partition: who is told of what, and who stays known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from replication.leader import NEVER
from tests.broker.partitions import state
from tests.broker.topics.test_partition_roles import House


class Told:
    """In place of a session."""

    def __init__(self) -> None:
        self.used_ms = 0
        self.wakes: list[bool] = []

    def stirred(self, wanted: Any, *, wake: bool) -> None:
        assert wanted == "wanted"
        self.wakes.append(wake)


class Quiet(House):
    """A leader of which broker 2 has all, and 3 not yet."""

    def __init__(self) -> None:
        super().__init__()
        self.replica.lead(state())
        self.append(2)
        self.replica.follower_fetched(2, 2)
        self.told = Told()
        assert self.quieten(2)

    def quieten(self, replica_id: int) -> bool:
        led = self.replica.led
        assert led is not None
        return self.replica.quiet.add(led, replica_id, self.told, "wanted")


def deleted(house: Quiet) -> None:
    house.replica.follower_fetched(3, 1)
    house.told.wakes.clear()  # of the high watermark
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
async def test_what_stirs(happens: Callable[[Quiet], Any], wakes: list[bool], stays: bool) -> None:
    house = Quiet()
    happens(house)
    assert house.told.wakes == wakes
    assert (2 in house.replica.quiet) is stays


async def test_an_append_wakes_who_was_told_of_the_high_watermark_and_waits_still() -> None:
    house = Quiet()
    house.replica.follower_fetched(3, 2)
    house.append()
    assert house.told.wakes == [False, True]


async def test_who_is_not_in_sync_or_soon_may_not_be_is_not_quiet() -> None:
    house = Quiet()
    house.replica.lead(state(isr=(1, 2), partition_epoch=1))
    assert not house.quieten(3)
    house.replica.follower_fetched(3, 2)
    assert house.isr.asked == [((1, 2, 3), 1)]
    assert not house.quieten(2)
    house.replica.isr_written(2)
    assert house.quieten(3)


async def test_one_that_was_quiet_until_the_append_is_in_sync_for_the_whole_lag() -> None:
    """Each request of its session says that it has all, though the partition is not looked at."""
    house = Quiet()
    house.replica.follower_fetched(3, 2)
    assert house.quieten(3)
    led = house.replica.led
    assert led is not None
    lag_ms = led.rules.lag_time_max_ms
    for _ in range(3):  # idle for long, without a look
        house.time.mono_ms += lag_ms
        house.replica.tick()
    assert house.isr.asked == []
    house.told.used_ms = house.time.mono_ms
    house.time.mono_ms += 400
    house.append()
    assert [each.fetched_ms for each in led.followers.values()] == [house.told.used_ms] * 2
    house.time.mono_ms = house.told.used_ms + lag_ms
    house.replica.tick()
    assert house.isr.asked == []
    house.time.mono_ms += 1
    house.replica.tick()
    assert house.isr.asked == [((1,), 0)]


async def test_a_session_of_before_says_nothing_newer_than_the_last_fetch() -> None:
    house = Quiet()
    house.replica.follower_fetched(3, 2)
    house.told.used_ms = house.time.mono_ms
    house.time.mono_ms += 100
    house.replica.follower_fetched(2, 2)  # by another session
    heard_ms = house.time.mono_ms
    house.append()
    led = house.replica.led
    assert led is not None
    assert (led.followers[2].fetched_ms, led.followers[2].caught_up_ms) == (heard_ms, heard_ms)


async def test_one_that_has_left_the_isr_since_is_not_taken_for_caught_up() -> None:
    house = Quiet()
    house.replica.follower_fetched(3, 2)
    house.replica.lead(state(isr=(1, 3), leader_epoch=1))
    house.told.used_ms = house.time.mono_ms = house.time.mono_ms + 100
    house.append()
    led = house.replica.led
    assert led is not None
    assert led.followers[2].caught_up_ms == NEVER
