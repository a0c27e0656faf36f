"""Tests background work: repetition, pauses, failures, cancellation, and deferred work during a
stop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from broker.loop.background import Background, repeat
from broker.loop.watchdog import Watchdog
from broker.time import Time
from tests.broker.mock_time import NoWaiting


class Enough(Exception):
    """An exception that a pause function raises to end repeated work."""


async def repeated(
    time: Time, pause_s: Callable[[], float], work: Callable[[], None]
) -> list[Exception]:
    """Repeats ``work`` until ``pause_s`` raises Enough. Returns the exceptions that ``work``
    raised."""
    failures: list[Exception] = []

    async def later() -> None:
        work()

    with pytest.raises(Enough):
        await repeat(time, pause_s, later, failures.append)
    return failures


def each_of(*values: float) -> Callable[[], float]:
    left = iter(values)

    def next_one() -> float:
        try:
            return next(left)
        except StopIteration:
            raise Enough from None

    return next_one


async def test_interval_of_repeated_background_work_is_read_again_each_second() -> None:
    time = NoWaiting()
    worked: list[int] = []
    await repeated(time, each_of(2.5, 2.5, 2.5), lambda: worked.append(len(time.slept_s)))
    assert time.slept_s == [1.0, 1.0, 0.5]
    assert worked == [3]


async def test_shortened_interval_of_background_work_applies_within_a_second() -> None:
    time = NoWaiting()
    worked: list[int] = []
    await repeated(time, each_of(3600, 3600, 0.2, 0.0), lambda: worked.append(len(time.slept_s)))
    assert time.slept_s == [1.0, 1.0, 0.0, 0.0]
    assert worked == [3, 4]


async def test_background_work_is_repeated_after_a_failure() -> None:
    def fails() -> None:
        raise ValueError("once more")

    failures = await repeated(NoWaiting(), each_of(0.0, 0.0, 0.0), fails)
    assert [str(error) for error in failures] == ["once more"] * 3


@pytest.mark.filterwarnings("error")
async def test_spawned_work_does_not_run_when_cancelled_before_its_start() -> None:
    time = Time()
    worked: list[None] = []

    async def work() -> None:
        worked.append(None)

    task = Background(time, Watchdog(time)).every("work", lambda: 0.0, work, lambda _: None)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert worked == []


async def test_stop_runs_deferred_work_and_waits_for_spawned_work() -> None:
    time = Time()
    background = Background(time, Watchdog(time))
    done: list[str] = []

    async def work() -> None:
        await asyncio.sleep(0)
        done.append("spawned")

    background.after(3_600_000, lambda: done.append("put off"))
    background.spawn(work())
    await background.stop()
    assert done == ["spawned", "put off"]
    assert not background.tasks
