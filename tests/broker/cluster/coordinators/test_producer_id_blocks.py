"""Tests blocks of producer ids: a cluster assigns each id only once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from broker.cluster.coordinators.producer_id_blocks import ProducerIdBlocks
from broker.cluster.membership.registration import prepare
from broker.test_mode.registry.ensemble import Ensemble
from broker.test_mode.registry.memory_zookeeper import MemoryZooKeeper
from protocol.znodes.cluster import PRODUCER_IDS


def run_in_scene(conduct: Callable[[Ensemble], Coroutine[Any, Any, None]]) -> None:
    async def play() -> None:
        async with asyncio.timeout(120):
            await conduct(Ensemble())

    asyncio.run(play())


@pytest.mark.proves("clusters 19")
def test_concurrent_brokers_get_different_producer_id_blocks() -> None:
    async def conduct(ensemble: Ensemble) -> None:
        clients = [MemoryZooKeeper(ensemble) for _ in range(5)]
        await prepare(clients[0])
        assert ensemble.nodes[PRODUCER_IDS].data is None  # Kafka can't parse a node of zero bytes.

        taken = await asyncio.gather(
            *[
                ProducerIdBlocks(client, node_id).reserve(1000)
                for node_id, client in enumerate(clients)
                for _ in range(3)
            ]
        )

        assert sorted(each.start for each in taken) == [1000 * each for each in range(15)]
        data = ensemble.nodes[PRODUCER_IDS].data
        assert data is not None
        last = json.loads(data)
        # Both values are strings: trap 18.
        assert (last["block_start"], last["block_end"]) == ("14000", "14999")

    run_in_scene(conduct)


def test_missing_producer_id_node_is_created_before_the_first_block() -> None:
    async def conduct(ensemble: Ensemble) -> None:
        client = MemoryZooKeeper(ensemble)
        assert await ProducerIdBlocks(client, 1).reserve(10) == range(10)
        creation, write = ensemble.writes
        assert creation.path == write.path == PRODUCER_IDS
        assert ensemble.nodes[PRODUCER_IDS].version == 1

    run_in_scene(conduct)


def test_broker_takes_the_next_producer_id_block_when_zookeepers_response_is_lost() -> None:
    async def conduct(ensemble: Ensemble) -> None:
        client = MemoryZooKeeper(ensemble)
        await prepare(client)
        client.lose_answers(1)
        assert await ProducerIdBlocks(client, 1).reserve(10) == range(10, 20)

    run_in_scene(conduct)


@pytest.mark.parametrize(
    "data", [b"?", b'{"broker":1,"block_start":"0","block_end":"%d"}' % (2**63)]
)
def test_invalid_or_exhausted_producer_id_node_is_an_error(data: bytes) -> None:
    async def conduct(ensemble: Ensemble) -> None:
        client = MemoryZooKeeper(ensemble)
        await prepare(client)
        await client.set(PRODUCER_IDS, data)
        with pytest.raises(OSError, match=PRODUCER_IDS):
            await ProducerIdBlocks(client, 1).reserve(10)

    run_in_scene(conduct)


def test_allocation_of_producer_ids_fails_when_the_session_is_closed() -> None:
    async def conduct(ensemble: Ensemble) -> None:
        client = MemoryZooKeeper(ensemble)
        await client.close()
        with pytest.raises(OSError, match="closed"):
            await ProducerIdBlocks(client, 1).reserve(10)

    run_in_scene(conduct)
