"""The ids, threads and timeouts of `Time`. The tests of its clocks are in loop/test_pauses.py."""

from __future__ import annotations

import asyncio
import threading
from uuid import UUID

import pytest

from broker.time import Time


def test_method_fresh_id_returns_a_random_uuid() -> None:
    ids = {Time().fresh_id() for _ in range(100)}
    assert len(ids) == 100
    uuids = [UUID(bytes=each) for each in ids]
    assert {(each.version, each.variant) for each in uuids} == {(4, "specified in RFC 4122")}


def test_threads_map_returns_results_in_order_or_raises_the_first_exception() -> None:
    def halved(number: int) -> int:
        if number % 2:
            raise ValueError(number)
        return number // 2

    threads = Time().threads(3, "halving")
    assert threads.map(halved, [8, 2, 6]) == [4, 1, 3]
    with pytest.raises(ValueError, match="5"):
        threads.map(halved, [8, 5, 7])
    assert not [each for each in threading.enumerate() if each.name.startswith("halving")]


async def test_pool_has_a_bounded_number_of_threads_and_its_stop_cancels_queued_work() -> None:
    threads = Time().threads(1, "one")
    began, gate = threading.Event(), threading.Event()

    def first() -> str:
        began.set()
        gate.wait(10)
        return threading.current_thread().name

    working, waiting = threads.run(first), threads.run(lambda: "never")
    await asyncio.to_thread(began.wait, 10)
    threads.stop()
    gate.set()
    assert (await working).startswith("one")
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_method_within_raises_timeout_error_when_the_timeout_expires() -> None:
    time = Time()
    with pytest.raises(TimeoutError):
        async with time.within(0.001):
            await time.sleep(60)
