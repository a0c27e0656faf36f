"""Tests that each broker of a cluster returns the error code of Apache Kafka 3.9.2.

The table of cases is in tests/cluster_errors/. Kafka's responses are in tests/data/cluster/;
tests/interop/test_cluster_errors.py compares them with a real cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

from broker.cluster.zookeeper.zookeeper import Create, Delete
from broker.test_mode.registry.memory_zookeeper import MemoryZooKeeper
from tests.broker.cluster.members import members
from tests.cluster_errors.asking import (
    CELLS,
    DIFFERS,
    LEADERLESS,
    NOBODY,
    WITHOUT_CONTROLLER,
    ask,
    make_lost,
    prepared,
    until_lost,
    until_nobody_is_controller,
    written,
)
from tests.cluster_errors.cell import Cell, Cluster, Codes

CONTROLLER = "/controller"


def test_each_error_case_has_a_unique_name_and_a_recorded_response() -> None:
    names = [cell.name for cell in (*CELLS, *LEADERLESS, *WITHOUT_CONTROLLER)]
    assert len(set(names)) == len(names)
    assert set(names) == set(written())
    assert set(DIFFERS) <= set(names)


async def test_each_broker_returns_the_same_error_as_kafka(tmp_path: Path) -> None:
    async with members(tmp_path, {"group.min.session.timeout.ms": "6000"}) as there:
        ports = {
            node_id: broker.sockets.addresses()[0][1] for node_id, broker in there.brokers.items()
        }
        cluster = await asyncio.to_thread(prepared, ports)
        found = await answers(cluster, CELLS)
        await asyncio.to_thread(make_lost, cluster)
        await there.stop(3)
        found |= await answers(cluster, LEADERLESS, until_lost)
        stranger = MemoryZooKeeper(there.ensemble)
        await stranger.multi([Delete(CONTROLLER), Create(CONTROLLER, NOBODY, True)])
        found |= await answers(cluster, WITHOUT_CONTROLLER, until_nobody_is_controller)
    kafka = written()
    differ = {name: (found[name], kafka[name]) for name in found if found[name] != kafka[name]}
    assert {name: codes for name, codes in differ.items() if name not in DIFFERS} == {}
    assert set(differ) == set(DIFFERS), "no longer another answer"


async def answers(
    cluster: Cluster, cells: Iterable[Cell], ready: Callable[[Cluster], None] | None = None
) -> dict[str, Codes]:
    """Prepares the cluster with ``ready``, sends the request of each of ``cells``, and returns the
    error codes in the responses."""
    if ready is not None:
        await asyncio.to_thread(ready, cluster)
    return await asyncio.to_thread(ask, cluster, cells)
