"""Tests that the clock of a test broker waits for work in progress, but not for one execution of
repeated work that hangs."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from broker.test_mode.clock import idle
from broker.test_mode.clock.idle import IdleWatch, NotedThreads
from broker.time import Time


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> IdleWatch:
    monkeypatch.setattr(idle, "ROUND_WITHIN_S", 0.05)
    return IdleWatch(Time())


async def endless_round(watch: IdleWatch) -> None:
    watch.round_begins()
    await asyncio.get_running_loop().create_future()


async def test_clock_does_not_wait_long_for_a_round_that_does_not_end(
    watch: IdleWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = asyncio.ensure_future(endless_round(watch))
    await asyncio.sleep(0)
    began_s = time.monotonic()
    await watch.settle()
    assert idle.ROUND_WITHIN_S / 2 < time.monotonic() - began_s < idle.WITHIN_S / 2

    monkeypatch.setattr(idle, "ROUND_WITHIN_S", idle.WITHIN_S)
    began_s = time.monotonic()
    await watch.settle()
    assert time.monotonic() - began_s < idle.WITHIN_S / 2, "the round is forgotten"
    task.cancel()


async def test_clock_waits_for_work_in_a_thread_while_a_round_does_not_end(
    watch: IdleWatch,
) -> None:
    task = asyncio.ensure_future(endless_round(watch))
    await asyncio.sleep(0)
    threads = NotedThreads(1, "test", watch)
    released = threading.Event()
    work = threads.run(lambda: released.wait(10))
    asyncio.get_running_loop().call_later(0.2, released.set)
    await watch.settle()
    assert work.done()
    threads.stop()
    task.cancel()
