"""Whole brokers that start again: nobody reaches one before it can answer."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from broker.apis import metadata
from broker.broker import Broker
from broker.cluster.metadata_cache import MetadataCache
from controller.requests import UpdateMetadataRequest
from controller.values import BrokerFact
from protocol.messages.metadata import API as METADATA
from protocol.znodes import brokers
from tests.broker.cluster.members import members
from tests.broker.cluster.told import brokers as alive
from tests.broker.edge import Client
from tests.broker.serving import eventually
from tests.brokers import free_port
from tests.simulated_zookeeper import SimulatedZooKeeper


async def test_connections_are_refused_until_the_session_before_is_over(tmp_path: Path) -> None:
    """A client that could connect would wait for ApiVersions in vain, and then take the broker for
    one of Kafka 0.9."""
    async with members(tmp_path) as there:
        await there.stop(3)
        before = SimulatedZooKeeper(there.ensemble)
        await before.create(brokers.path(3), b"{}", ephemeral=True)
        port = free_port()
        with capture_logs() as lines:
            starting = asyncio.ensure_future(there.start(3, port))
            await eventually(
                "the node is waited for",
                lambda: any("another session" in each["event"] for each in lines),
            )
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), 5)
        assert not starting.done()
        there.ensemble.end_session(before.session)
        await starting
        socket.create_connection(("127.0.0.1", port), 5).close()
        await there.settled()


def tell(broker: Broker, there: Sequence[BrokerFact]) -> None:
    """What the controller says of who lives."""
    cache = broker.cluster
    assert isinstance(cache, MetadataCache)
    told = UpdateMetadataRequest(cache.controller_epoch, -1, cache.controller_id, -1, there, ())
    cache.update(told)


async def client_of(broker: Broker) -> Client:
    [(_, port), *_] = broker.sockets.addresses()
    return await Client.connect(port)


async def test_metadata_waits_until_the_controller_has_told_who_lives(tmp_path: Path) -> None:
    """librdkafka forgets all brokers when it is told of none, and asks nobody any more."""
    async with members(tmp_path) as there:
        broker = there.brokers[3]
        tell(broker, ())
        client = await client_of(broker)
        handle = client.send(METADATA.key, 9, topics=[], allow_auto_topic_creation=False)
        connections = broker.server.connections
        await eventually(
            "it waits",
            lambda: any(each.waits and each.client_id == "tester" for each in connections),
        )
        tell(broker, alive((1, 2, 3)))
        answer = await client.receive(handle)
        assert [each["node_id"] for each in answer["brokers"]] == [1, 2, 3]
        client.close()


async def test_who_asks_a_broker_that_nobody_tells_anything_is_sent_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "TOLD_WITHIN_S", 0.05)
    async with members(tmp_path) as there:
        broker = there.brokers[3]
        tell(broker, ())
        client = await client_of(broker)
        client.send(METADATA.key, 9, topics=[], allow_auto_topic_creation=False)
        assert await client.closed_by_peer()
        client.close()
