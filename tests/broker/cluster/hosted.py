"""Brokers that host the controller on one simulated ZooKeeper, and fake brokers that accept the
requests of the controller."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

from broker.cluster.controller.channels import ChannelSettings
from broker.cluster.controller.controller_host import ControllerHost
from broker.cluster.controller.controller_term import HostServices
from broker.cluster.membership.registration import prepare
from broker.cluster.peers.fitting import fitting
from broker.cluster.peers.inter_broker import parse
from broker.cluster.zookeeper.zookeeper import Create, Set, Stat
from broker.loop.background import Background
from broker.loop.internal_errors import InternalErrors
from broker.loop.watchdog import Watchdog
from broker.test_mode.registry.ensemble import Ensemble
from broker.test_mode.registry.memory_zookeeper import MemoryZooKeeper
from broker.time import Time
from controller.config import ControllerConfig
from controller.events import Event
from protocol.messages import leader_and_isr, stop_replica, update_metadata
from protocol.schema import Api
from protocol.znodes import brokers, cluster, topics
from tests.broker.cluster.other_broker import LISTENER, OtherBroker, Value, other_broker


class ObedientBroker:
    """A registered fake broker that accepts each request of a controller."""

    def __init__(self, ensemble: Ensemble, other: OtherBroker) -> None:
        self.node_id = other.node.node_id
        self.other = other
        self.zookeeper = MemoryZooKeeper(ensemble)
        for api in (leader_and_isr.API, update_metadata.API, stop_replica.API):
            other.answers[api.key] = partial(self._answer, api)

    async def _answer(self, api: Api, version: int, value: Value) -> Value:
        told = value["topic_states"] if api is leader_and_isr.API else ()
        topics = [
            {
                "topic_id": topic["topic_id"],
                "partition_errors": [
                    {"partition_index": each["partition_index"], "error_code": 0}
                    for each in topic["partition_states"]
                ],
            }
            for topic in told
        ]
        answer = {"error_code": 0, "topics": topics, "partition_errors": []}
        return fitting(api.response, version, answer)

    async def register(self, host: str = "127.0.0.1") -> int:
        """Registers the broker. Returns the broker epoch."""
        endpoint = brokers.Endpoint(LISTENER, host, self.other.node.port)
        said = brokers.Registration(self.node_id, (endpoint,))
        data = brokers.encode_registration(said)
        path = brokers.path(self.node_id)
        registering = [Create(path, None, ephemeral=True), Set(path, data), Set(brokers.IDS, b"")]
        stat = (await self.zookeeper.multi(registering))[1]
        assert isinstance(stat, Stat)
        return stat.czxid

    async def register_again(self) -> int:
        """Ends the session and registers the broker in a new session. Returns the new broker
        epoch."""
        self.zookeeper.ensemble.end_session(self.zookeeper.session)
        self.zookeeper = MemoryZooKeeper(self.zookeeper.ensemble)
        return await self.register()

    def of(self, key: int) -> list[Value]:
        """Returns the received requests of one API."""
        return [value for api, _, value in self.other.asked if api == key]


class Host:
    """The part of a broker that hosts the controller."""

    def __init__(self, ensemble: Ensemble, node_id: int, **settings: Any) -> None:
        self.node_id = node_id
        self.zookeeper = MemoryZooKeeper(ensemble)
        self.time = Time()
        self.errors = InternalErrors()
        self.background = Background(self.time, Watchdog(self.time))
        self.events: list[Event] = []
        self.known_ids: dict[str, bytes] = {}
        config = ControllerConfig(node_id, **settings)
        services = HostServices(
            self.zookeeper,
            ChannelSettings(node_id, parse("3.9"), LISTENER, 2000, 2000),
            lambda: config,
            topics.VERSION,
            self.known_ids.get,
            self.time,
            self.background.spawn,
            self.errors,
        )
        self.host = ControllerHost(services, self.events.extend)

    def seen(self, kind: type[Event]) -> list[Any]:
        """Returns the observed events of type ``kind``."""
        return [each for each in self.events if isinstance(each, kind)]

    async def stop(self) -> None:
        self.host.stop()
        await self.zookeeper.close()
        await self.background.stop()
        assert not self.errors.counts.total(), self.errors.counts


class Cluster:
    """All brokers, and a ZooKeeper session for the test."""

    def __init__(
        self, ensemble: Ensemble, hosts: Sequence[Host], obedient: list[ObedientBroker]
    ) -> None:
        self.ensemble = ensemble
        self.hosts = hosts
        self.obedient = obedient
        self.zookeeper = MemoryZooKeeper(ensemble)

    def data(self, path: str) -> bytes | None:
        """Returns the data of a node; None if the node does not exist."""
        node = self.ensemble.nodes.get(path)
        return None if node is None else node.data or b""

    def controller(self) -> int | None:
        """Returns the broker id in the node `/controller`."""
        data = self.data(cluster.CONTROLLER)
        return None if data is None else cluster.decode_controller(data)

    def active(self) -> list[int]:
        """Returns the ids of the brokers that consider themselves the controller."""
        return [each.node_id for each in self.hosts if each.host.is_active]

    def state(self, topic: str, partition: int = 0) -> topics.StateNode | None:
        """Returns the content of the state node of a partition."""
        data = self.data(topics.state_path(topic, partition))
        return None if data is None else topics.decode_state(topic, partition, data)

    async def topic(self, name: str, *assignment: Sequence[int], data: bytes | None = None) -> None:
        partitions = {index: tuple(each) for index, each in enumerate(assignment)}
        node = topics.encode_topic(topics.TopicNode(partitions), 1) if data is None else data
        await self.zookeeper.create(topics.topic_path(name), node)


@asynccontextmanager
async def hosted(*ids: int, obedient: int = 0, **settings: Any) -> AsyncIterator[Cluster]:
    """Yields a cluster with a host of a controller for each of ``ids``, and ``obedient`` fake
    brokers. The hosts are not started yet. The fake brokers are registered and have the ids 11, 12,
    and so on."""
    ensemble = Ensemble()
    async with asyncio.timeout(120), AsyncExitStack() as stack:
        await prepare(MemoryZooKeeper(ensemble))
        others = []
        for each in range(11, 11 + obedient):
            other = await stack.enter_async_context(other_broker(each))
            others.append(ObedientBroker(ensemble, other))
            await others[-1].register()
        hosts = [Host(ensemble, each, **settings) for each in ids]
        try:
            yield Cluster(ensemble, hosts, others)
        finally:
            for host in hosts:
                await host.stop()
