"""Tests that restarted brokers accept connections only when they can answer requests."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from broker.apis.shared import deferred_answer
from broker.broker import Broker
from broker.cluster.metadata_cache import MetadataCache
from broker.test_mode.registry.memory_zookeeper import MemoryZooKeeper
from controller.requests import UpdateMetadataRequest
from controller.values import BrokerFact
from protocol.messages.describe_cluster import API as DESCRIBE_CLUSTER
from protocol.messages.metadata import API as METADATA
from protocol.schema import Api
from protocol.znodes import brokers
from tests.broker.cluster.members import members
from tests.broker.cluster.told import brokers as alive
from tests.broker.edge import Client
from tests.broker.serving import eventually
from tests.brokers import free_port


async def test_connections_are_refused_until_the_previous_zookeeper_session_ends(
    tmp_path: Path,
) -> None:
    """A client that could connect would time out on ApiVersions and assume that the broker is Kafka
    0.9."""
    async with members(tmp_path) as there:
        await there.stop(3)
        before = MemoryZooKeeper(there.ensemble)
        await before.create(brokers.path(3), b"{}", ephemeral=True)
        port = free_port()
        with capture_logs() as lines:
            starting = asyncio.ensure_future(there.start(3, port))
            await eventually(
                "the node is waited for",
                lambda: any("another ZooKeeper session" in each["event"] for each in lines),
            )
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), 5)
        assert not starting.done()
        there.ensemble.end_session(before.session)
        await starting
        socket.create_connection(("127.0.0.1", port), 5).close()
        await there.settled()


def tell(broker: Broker, there: Sequence[BrokerFact]) -> None:
    """Sends UpdateMetadata with these live brokers."""
    cache = broker.cluster
    assert isinstance(cache, MetadataCache)
    told = UpdateMetadataRequest(cache.controller_epoch, -1, cache.controller_id, -1, there, ())
    cache.update(told)


async def client_of(broker: Broker) -> Client:
    [(_, port), *_] = broker.sockets.addresses()
    return await Client.connect(port)


NAMES_BROKERS: list[tuple[Api, int, str, dict[str, Any]]] = [
    (METADATA, 9, "node_id", {"topics": [], "allow_auto_topic_creation": False}),
    (DESCRIBE_CLUSTER, 1, "broker_id", {}),
]
"""API, version, the response field that contains a broker id, and the request body."""


@pytest.mark.parametrize(("api", "version", "key", "asked"), NAMES_BROKERS)
async def test_metadata_response_waits_until_live_brokers_are_known(
    tmp_path: Path, api: Api, version: int, key: str, asked: dict[str, Any]
) -> None:
    """librdkafka removes all brokers after a response without brokers, and sends no more
    requests."""
    async with members(tmp_path) as there:
        broker = there.brokers[3]
        tell(broker, ())
        client = await client_of(broker)
        handle = client.send(api.key, version, **asked)
        connections = broker.server.connections
        await eventually(
            "it waits",
            lambda: any(each.waits and each.client_id == "tester" for each in connections),
        )
        tell(broker, alive((1, 2, 3)))
        answer = await client.receive(handle)
        assert [each[key] for each in answer["brokers"]] == [1, 2, 3]
        assert answer["controller_id"] == broker.cluster.controller_id
        client.close()


async def test_metadata_response_has_the_rack_of_each_broker(tmp_path: Path) -> None:
    async with members(tmp_path, {"broker.rack": "cellar"}) as there:
        await there.settled()
        client = await client_of(there.brokers[1])
        answer = await client.call(METADATA.key, 9, topics=[], allow_auto_topic_creation=False)
        client.close()
    assert [each["rack"] for each in answer["brokers"]] == ["cellar"] * 3


@pytest.mark.parametrize(("api", "version", "_key", "asked"), NAMES_BROKERS)
async def test_connection_is_closed_when_the_broker_does_not_learn_the_live_brokers_in_time(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    api: Api,
    version: int,
    _key: str,
    asked: dict[str, Any],
) -> None:
    monkeypatch.setattr(deferred_answer, "BROKERS_WITHIN_S", 0.05)
    async with members(tmp_path) as there:
        broker = there.brokers[3]
        tell(broker, ())
        client = await client_of(broker)
        client.send(api.key, version, **asked)
        assert await client.closed_by_peer()
        client.close()
