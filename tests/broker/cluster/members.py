"""Complete brokers of one cluster in the event loop of the test, with a ZooKeeper in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from broker.broker import Broker
from broker.cluster.zookeeper.zookeeper import Where
from broker.config.sources import load
from broker.test_mode.registry.ensemble import Ensemble
from broker.test_mode.registry.memory_zookeeper import MemoryZooKeeper
from broker.time import Time
from log.files.filesystem import FileSystem
from tests.broker.serving import asked, eventually
from tests.wire import Wire

LISTENER = "PLAINTEXT"
GROUP, TRANSACTION = 0, 1
"""The key types of FindCoordinator for groups and transactions."""
SETTINGS = {
    "http.listener": "off",
    "zookeeper.connect": "simulated:2181",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "replica.fetch.wait.max.ms": "50",
    "controlled.shutdown.retry.backoff.ms": "50",
}


@dataclass
class Members:
    """The running brokers, by broker id."""

    folder: Path
    settings: Mapping[str, str]
    ensemble: Ensemble = field(default_factory=Ensemble)
    brokers: dict[int, Broker] = field(default_factory=dict)
    files: Mapping[int, FileSystem] = field(default_factory=dict)
    """The file systems of brokers that do not use the real one, by broker id."""

    async def start(self, node_id: int, port: int = 0, time: Time | None = None) -> Broker:
        """Starts a broker on ``port``. The broker reuses the directory of an earlier start."""
        flags = {
            "listeners": f"{LISTENER}://127.0.0.1:{port}",
            "log.dirs": f"/data-{node_id}"
            if node_id in self.files
            else str(self.folder / str(node_id)),
        }
        sets = {**SETTINGS, **self.settings, "broker.id": str(node_id)}
        config = load(None, {}, [f"{key}={value}" for key, value in sets.items()], flags)
        files = self.files.get(node_id)
        broker = Broker(config, fs=files, time=time, zookeeper=self._connect)
        try:
            broker.open()
            await broker.join()
            await broker.start()
            broker.start_http()
        except BaseException:
            broker.release()
            raise
        self.brokers[node_id] = broker
        return broker

    async def stop(self, node_id: int) -> None:
        await self.brokers.pop(node_id).stop()

    async def _connect(self, _: Where, __: Time) -> MemoryZooKeeper:
        return MemoryZooKeeper(self.ensemble)

    # -- brokers and their roles

    async def settled(self) -> None:
        """Waits until each running broker knows all running brokers."""
        count = len(self.brokers)
        await eventually(
            "all know all",
            lambda: all(
                len(each.cluster.brokers(LISTENER)) == count for each in self.brokers.values()
            ),
        )

    def leaders_known(self, topic: str, partition: int) -> set[int]:
        """Returns the leader of the partition in the metadata of each broker; -1 for a broker that
        does not know the partition."""
        views = [each.cluster.partition(topic, partition) for each in self.brokers.values()]
        return {-1 if view is None else view.leader for view in views}

    async def leader(self, topic: str, partition: int) -> Broker:
        """Waits until all brokers agree on the leader of the partition. Returns this leader."""
        found: list[Broker] = []

        def known() -> bool:
            leaders = self.leaders_known(topic, partition)
            if len(leaders) == 1 and leaders <= self.brokers.keys():
                found.append(self.brokers[leaders.pop()])
            return bool(found)

        await eventually(f"{topic}-{partition} is led", known)
        return found[-1]

    async def create(self, topic: str, partitions: int) -> None:
        at = next(iter(self.brokers.values()))
        controller = self.brokers[at.cluster.controller_id]
        made = {
            "name": topic,
            "num_partitions": partitions,
            "replication_factor": 3,
            "assignments": [],
            "configs": [],
        }
        value = {"topics": [made], "timeout_ms": 15_000, "validate_only": False}
        answer = await asked(controller, lambda wire: wire.call("CreateTopics", 5, value))
        assert [each["error_code"] for each in answer["topics"]] == [0], answer
        for partition in range(partitions):
            await self.leader(topic, partition)

    async def coordinator(self, key: str, key_type: int) -> Broker:
        """Returns the coordinator of ``key`` according to FindCoordinator."""
        value = {"key_type": key_type, "coordinator_keys": [key]}
        found: list[int] = []
        for _ in range(300):
            at = next(iter(self.brokers.values()))
            answer = await asked(at, lambda wire: wire.call("FindCoordinator", 4, value))
            [each] = answer["coordinators"]
            if each["error_code"] == 0 and each["node_id"] in self.brokers:
                return self.brokers[each["node_id"]]
            found.append(each["error_code"])
            await asyncio.sleep(0.02)
        raise AssertionError(f"nobody coordinates {key}: {found[-5:]}")

    async def at_coordinator(
        self, key: str, key_type: int, work: Callable[[Wire], Any], *errors: int
    ) -> Any:
        """Runs ``work`` on the coordinator until the result is not in ``errors``. Returns the
        result."""
        said: Any = None
        for _ in range(300):
            coordinator = await self.coordinator(key, key_type)
            said = await asked(coordinator, work)
            if said not in errors:
                return said
            await asyncio.sleep(0.02)
        raise AssertionError(f"the coordinator of {key} says {said} again and again")


@asynccontextmanager
async def members(
    folder: Path,
    settings: Mapping[str, str] | None = None,
    files: Mapping[int, FileSystem] | None = None,
) -> AsyncIterator[Members]:
    """Starts three brokers, waits until they know each other, and stops them at the end."""
    cluster = Members(folder, settings or {}, files=files or {})
    async with AsyncExitStack() as stack:
        for node_id in (1, 2, 3):
            await cluster.start(node_id)

        async def stop_all() -> None:
            for node_id in list(cluster.brokers):
                await cluster.stop(node_id)

        stack.push_async_callback(stop_all)
        await cluster.settled()
        yield cluster
