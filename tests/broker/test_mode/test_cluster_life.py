"""The brokers of a test cluster, in the event loop of the test: reset and kill."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from broker.cluster.zookeeper.zookeeper import Create
from broker.config.sources import load
from broker.test_mode.addresses import bind_all
from broker.test_mode.cluster.settings import cluster_defaults, of_broker
from broker.test_mode.cluster.tested_cluster import TestedCluster
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
