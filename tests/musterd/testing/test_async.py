"""`AsyncMuster` has the same interface as `Muster` and does not block the event loop."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from musterd.testing import AsyncMuster, BrokerDied, Muster
from musterd.testing.awaited import AsyncBrokerTime, AsyncWaiting
from musterd.testing.time import BrokerTime
from musterd.testing.waiting import Waiting
from tests.musterd.testing.test_process import is_alive
from tests.waiting import until

NOT_AWAITED = {"bootstrap_servers", "http", "pid", "lines", "wait_for"}


def public(kind: type) -> dict[str, Any]:
    return {name: value for name, value in inspect.getmembers(kind) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("awaited", "plain"),
    [(AsyncMuster, Muster), (AsyncBrokerTime, BrokerTime), (AsyncWaiting, Waiting)],
)
def test_async_muster_has_the_same_methods_as_muster(awaited: type, plain: type) -> None:
    assert public(awaited).keys() == public(plain).keys()
    for name, method in public(awaited).items():
        if callable(method):
            ours = inspect.signature(method).parameters
            assert ours == inspect.signature(public(plain)[name]).parameters, name
            is_awaited = inspect.iscoroutinefunction(method) or "Begun" in str(
                inspect.signature(method).return_annotation
            )
            assert is_awaited == (name not in NOT_AWAITED), name


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


def test_async_muster_supports_produce_consume_faults_and_reset() -> None:
    async def story() -> None:
        async with AsyncMuster() as broker:
            await broker.create_topic("orders")
            async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
                await producer.send_and_wait("orders", b"one")
            consumer = AIOKafkaConsumer(
                "orders", bootstrap_servers=broker.bootstrap_servers, group_id="billing",
                auto_offset_reset="earliest", enable_auto_commit=False,
            )  # fmt: skip
            async with consumer:
                assert (await consumer.getone()).value == b"one"
                await broker.wait_for("billing").stable(members=1)
                async with broker.fail("OffsetCommit", "NOT_COORDINATOR", times=1) as fault:
                    await consumer.commit()
                    assert await fault.hits() == 1
                assert (await broker.wait_for("billing").caught_up()).offset("orders") == 1
            await broker.wait_for("billing").empty()
            fault = await broker.disk_full()
            await fault.end()
            assert [each.value for each in await broker.records("orders")] == [b"one"]
            async with broker.time.freeze():
                first = await broker.time.now()
                assert await broker.time.now() == first
            await broker.kill()
            await broker.restart()
            assert len(await broker.records("orders")) == 1
            await broker.reset()
            assert await broker.groups() == []

    run(story())


@pytest.mark.campaign
def test_event_loop_runs_while_a_method_of_async_muster_is_awaited() -> None:
    async def story() -> None:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.001)
                ticks += 1

        # The test counts ticks instead of seconds: a busy machine delays the loop, too.
        ticking = asyncio.create_task(tick())
        async with AsyncMuster() as broker:
            started = ticks
            with pytest.raises(AssertionError, match="group does not exist"):
                await broker.wait_for("billing", timeout_s=2).stable()
            waited = ticks
        ticking.cancel()
        assert started > 5
        assert waited - started > 20
        assert ticks > waited

    run(story())


def test_async_muster_does_not_use_the_default_executor() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1) as pool:
            loop.set_default_executor(pool)
            blocker = threading.Event()
            blocked = loop.run_in_executor(None, blocker.wait)
            async with AsyncMuster() as broker:
                await broker.create_topic("orders")
            blocker.set()
            await blocked

    run(story())


def test_cancelled_start_of_async_muster_ends_the_broker_process() -> None:
    pids: list[int] = []

    async def story() -> None:
        broker = AsyncMuster()
        starting = asyncio.create_task(broker.start())
        while broker._broker._child is None:
            await asyncio.sleep(0.001)
        pids.append(broker._broker._child.pid)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting

    run(story())
    until("it has ended", lambda: not is_alive(pids[0]))


def test_error_of_a_failed_start_of_async_muster_has_the_reason() -> None:
    async def story() -> None:
        with pytest.raises(BrokerDied, match=r"num\.partitions"):
            async with AsyncMuster(settings={"num.partitions": "many"}):
                pass

    run(story())


def test_async_muster_can_be_used_in_several_event_loops_one_after_another() -> None:
    broker = AsyncMuster()
    run(broker.start())
    run(broker.create_topic("orders"))
    run(broker.close())
    run(broker.start())
    run(broker.close())
