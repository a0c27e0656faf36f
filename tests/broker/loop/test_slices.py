"""Tests slices: long work yields to the event loop, and the work of one client does not delay other
clients."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Generator
from itertools import pairwise

import pytest

from broker.loop import slices, watchdog
from broker.loop.slices import Slicer
from broker.loop.watchdog import Watchdog
from broker.loop.worker import Worker
from broker.time import Time


async def test_event_loop_runs_between_slices_of_work() -> None:
    slicer = Slicer(Time())
    seen: list[str] = []

    async def long(name: str) -> None:
        work = slicer.work(name)
        for _ in range(20):
            await work.pause()
            seen.append(name)

    async def others() -> None:
        while True:
            seen.append("loop")
            await asyncio.sleep(0)

    looking = asyncio.create_task(others())
    await asyncio.gather(*(long(name) for name in "abc"))
    looking.cancel()

    pairs = set(pairwise(seen))
    assert not {(one, other) for one, other in pairs if "loop" not in (one, other)}
    order = [name for name in seen if name != "loop"]
    assert order == ["a", "b", "c"] * 20


async def test_event_loop_runs_other_tasks_between_two_tasks_that_one_event_resumed() -> None:
    """One record can complete many Produce requests. The event loop must run between the
    continuations of these requests."""
    now_ns = 0
    slicer = Slicer(Time(ticks_ns=lambda: now_ns))
    stable = asyncio.Event()
    seen: list[str] = []

    async def waits(name: str, takes_us: int) -> None:
        nonlocal now_ns
        work = slicer.work(name)
        await stable.wait()
        await work.resume()
        seen.append(name)
        now_ns += 1000 * takes_us

    async def others() -> None:
        while True:
            await asyncio.sleep(0)
            seen.append("loop")

    async def order_of(takes_us: int) -> str:
        stable.clear()
        work = [asyncio.create_task(waits(name, takes_us)) for name in "abcd"]
        looking = asyncio.create_task(others())
        await asyncio.sleep(0)
        seen.clear()
        stable.set()
        await asyncio.gather(*work)
        looking.cancel()
        return "".join(name if name != "loop" else "." for name in seen).rstrip(".")

    assert re.fullmatch(r"\.?abc\.+d", await order_of(takes_us=50))
    assert re.fullmatch(r"\.?a\.+b\.+c\.+d", await order_of(takes_us=200))


async def test_slicer_yields_between_steps_and_returns_the_result() -> None:
    now_ns = 0
    slicer = Slicer(Time(ticks_ns=lambda: now_ns))
    turns: list[int] = []
    turn = slicer.turn

    async def counted() -> None:
        turns.append(now_ns)
        await turn()

    slicer.turn = counted  # type: ignore[method-assign]

    def steps() -> Generator[None, None, str]:
        nonlocal now_ns
        for _ in range(6):
            now_ns += slices.SLICE_NS // 2
            yield
        return "done"

    assert await slicer.work("a").through(steps()) == "done"
    assert turns == [slices.SLICE_NS * 3 // 2, slices.SLICE_NS * 3]


async def test_cancelled_task_does_not_delay_the_next_slice() -> None:
    slicer = Slicer(Time())
    gone = asyncio.create_task(slicer.turn())
    await asyncio.sleep(0)
    stays = asyncio.create_task(slicer.turn())
    gone.cancel()
    await asyncio.wait_for(stays, 30)


async def test_watchdog_counts_long_blocks_by_name_of_work_and_keeps_the_longest_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch = Watchdog(Time())
    watch.held("Fetch", watchdog.HELD_NS_MAX)
    assert not watch.counts
    watch.held("Fetch", watchdog.HELD_NS_MAX + 5)
    watch.held("Fetch", watchdog.HELD_NS_MAX + 1)
    assert watch.counts == {"Fetch": 2}
    assert watch.longest_ns == {"Fetch": watchdog.HELD_NS_MAX + 5}

    monkeypatch.setattr(watchdog, "HELD_NS_MAX", -1)
    work = Slicer(Time(), watch).work("scrape")
    await work.pause()
    assert watch.counts["scrape"] == 1


async def test_worker_thread_alternates_between_the_jobs_of_its_clients() -> None:
    worker = Worker(Time())
    gate = threading.Event()
    done: list[str] = []

    def job(name: str) -> str:
        gate.wait(10)
        done.append(name)
        return name

    many = [worker.run("many", lambda n=n: job(f"many {n}")) for n in range(3)]  # type: ignore[misc]
    first = [asyncio.ensure_future(each) for each in many]
    await asyncio.sleep(0)
    one = asyncio.ensure_future(worker.run("one", lambda: job("one")))
    await asyncio.sleep(0)
    gate.set()

    assert await asyncio.wait_for(one, 30) == "one"
    assert await asyncio.gather(*first) == ["many 0", "many 1", "many 2"]
    assert done.index("one") == 1
    worker.stop()


async def test_exception_of_a_worker_job_is_raised_only_to_the_client_of_the_job() -> None:
    worker = Worker(Time())

    def fails() -> None:
        raise ValueError("no")

    bad = asyncio.ensure_future(worker.run(1, fails))
    good = asyncio.ensure_future(worker.run(2, lambda: 7))
    with pytest.raises(ValueError, match="no"):
        await bad
    assert await good == 7
    cancelled = asyncio.ensure_future(worker.run(3, lambda: 1))
    cancelled.cancel()
    assert await worker.run(4, lambda: 8) == 8
    worker.stop()


async def test_slice_duration_excludes_waiting_time() -> None:
    now_ns = 0
    work = Slicer(Time(ticks_ns=lambda: now_ns)).work("DeleteTopics")

    def passes(waited_ns: int) -> None:
        nonlocal now_ns
        now_ns += waited_ns

    async def takes(held_ns: int, waited_ns: int) -> str:
        nonlocal now_ns
        now_ns += held_ns
        if waited_ns:
            asyncio.get_running_loop().call_soon(passes, waited_ns)
            await asyncio.sleep(0)
        return "done"

    for _ in range(3):
        assert not work.over
        assert await work.beside(takes(slices.SLICE_NS // 2, 0)) == "done"
    assert work.over

    await work.pause()
    await work.beside(takes(5, 10 * slices.SLICE_NS))
    assert work.end() == pytest.approx((1.5 * slices.SLICE_NS + 5) / 1e9)


async def test_slice_length_is_configurable_for_each_kind_of_work() -> None:
    now_ns = 0
    slicer = Slicer(Time(ticks_ns=lambda: now_ns))
    usual, longer = slicer.work("scrape"), slicer.work("load", 2 * slices.SLICE_NS)
    now_ns = slices.SLICE_NS + 1
    assert (usual.over, longer.over) == (True, False)
    now_ns += slices.SLICE_NS
    assert longer.over
