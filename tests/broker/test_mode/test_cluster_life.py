"""The brokers of a test cluster, in the event loop of the test: reset, kill and stop."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from broker.cluster.membership.controlled_shutdown import shutdown_settings
from broker.cluster.zookeeper.zookeeper import Create
from broker.config.sources import load
from broker.test_mode.addresses import bind_all
from broker.test_mode.cluster.isolation import isolate
from broker.test_mode.cluster.settings import cluster_defaults, of_broker
from broker.test_mode.cluster.tested_cluster import BROKERS, CLIENTS, REGISTRY, TestedCluster
from broker.test_mode.lines import KeptLines
from protocol.znodes.brokers import IDS

CONFIG = load(None, {}, [], {}, cluster_defaults(3))
End = Callable[[TestedCluster, int], Coroutine[Any, Any, object]]


@asynccontextmanager
async def running_cluster() -> AsyncIterator[TestedCluster]:
    configs = {each: of_broker(CONFIG, each) for each in (1, 2, 3)}
    cluster = TestedCluster(configs, bind_all(configs), KeptLines(io.StringIO()))
    await cluster.start()
    try:
        yield cluster
    finally:
        await cluster.end()


async def _reset(cluster: TestedCluster, _: int) -> None:
    await cluster.reset()


async def _kill(cluster: TestedCluster, broker_id: int) -> None:
    await cluster.kill(broker_id, expire=False)


@pytest.mark.parametrize("end", [_reset, _kill])
async def test_killed_controller_does_not_react_to_changes_in_the_registry(end: End) -> None:
    """Otherwise the controller would send requests, which the brokers of the next start would
    accept: both controllers have the same epoch."""
    async with running_cluster() as cluster:
        controller_id = cluster.truth.controller_id
        assert controller_id is not None
        run, ensemble = cluster.brokers[controller_id].run, cluster.registry.ensemble
        await end(cluster, controller_id)

        ensemble.do([Create(f"{IDS}/9", b"{}")], 0)
        began = set[asyncio.Task[Any]]()
        for _ in range(20):
            await asyncio.sleep(0)
            began |= run.tasks

        assert began == set()


def test_last_controlled_shutdown_attempt_begins_after_the_session_of_the_controller() -> None:
    """The attempts last 10 s at most, so that `stop` returns soon while the controller is
    isolated."""
    shutdown, wait_ms = shutdown_settings(CONFIG), CONFIG["controller.socket.timeout.ms"]

    waits_before_last_ms = (shutdown.attempts - 1) * (wait_ms + shutdown.backoff_ms)

    assert CONFIG["zookeeper.session.timeout.ms"] < waits_before_last_ms
    assert waits_before_last_ms + wait_ms <= 10_000


async def test_stop_ends_soon_after_the_session_of_the_isolated_controller_has_expired() -> None:
    async with running_cluster() as cluster:
        controller_id = cluster.truth.controller_id
        assert controller_id is not None
        stopped = next(each for each in cluster.brokers if each != controller_id)
        fault = isolate(cluster, controller_id, (CLIENTS, BROKERS, REGISTRY))
        cluster.faults.begin(fault)

        stopping = asyncio.create_task(cluster.stop(stopped))
        await cluster.time.advance(CONFIG["zookeeper.session.timeout.ms"])

        await asyncio.wait_for(stopping, 15)
        assert cluster.truth.controller_id not in (controller_id, stopped)
        assert not cluster.brokers[stopped].is_running
