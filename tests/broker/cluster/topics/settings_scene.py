"""Broker 1, which has a log of topic t and uses a simulated ZooKeeper, and a second client that
writes settings."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

from broker.cluster.membership.registration import prepare
from broker.cluster.metadata_cache import MetadataCache
from broker.cluster.topics.cluster_configs import ClusterConfigs
from broker.cluster.topics.cluster_registry import ClusterRegistry
from broker.config.config import Config
from broker.loop.internal_errors import InternalErrors
from broker.test_mode.registry.ensemble import Ensemble
from broker.test_mode.registry.memory_zookeeper import MemoryZooKeeper
from broker.topics.config_changes import ConfigChanges
from broker.topics.logs import LogManager
from broker.topics.registry import Topic
from log.files.filesystem import OsFileSystem
from protocol.znodes import configs
from tests.broker.cluster.told import tell, topic
from tests.broker.mock_time import MockTime
from tests.broker.partitions import services_with

ID = bytes(range(16))
CHANGES = "/config/changes"


class Scene:
    """Broker 1 with a log of topic t, and a second client that writes settings."""

    def __init__(self, folder: Path) -> None:
        self.zookeeper = MemoryZooKeeper(Ensemble())
        self.other = MemoryZooKeeper(self.zookeeper.ensemble)
        self.time = MockTime(self.zookeeper.ensemble.now_ms)
        self.config = Config({"zookeeper.connect": "127.0.0.1:1", "broker.id": "1"})
        self.cache = MetadataCache(1)
        self.registry = ClusterRegistry(1, "cluster", self.cache)
        self.errors = InternalErrors()
        services = services_with(time=self.time)
        self.logs = LogManager(OsFileSystem(), str(folder), self.config, services)
        self.logs.show(self.logs.make(Topic("t", ID, 1), [0]))
        self.unclean: list[str] = []
        self.applied = 0
        self.configs = ClusterConfigs(
            self.config,
            self.registry,
            self.logs,
            self.zookeeper,
            self.time,
            lambda work, name: asyncio.get_running_loop().create_task(work, name=name),
            self.errors,
            applied=self._apply,
            unclean_changed=self.unclean.append,
        )
        self.changes = ConfigChanges(
            self.config, self.registry, self.logs, self.configs, self._apply
        )

    def _apply(self) -> None:
        self.applied += 1

    def learn(self, *names: str) -> None:
        """Processes metadata of these topics from the controller."""
        told = tell(
            self.cache, *[topic(each, [1], bytes([i] * 16)) for i, each in enumerate(names, 1)]
        )
        self.configs.learnt(self.registry.learnt(told).shown)

    async def write(self, entity: str, settings: Mapping[str, str] | bytes) -> None:
        """Writes settings of ``entity`` and a change notice, as another broker or a tool does."""
        data = settings if isinstance(settings, bytes) else configs.encode_config(settings)
        path = f"/config/{entity}"
        if await self.other.exists(path) is None:
            await self.other.create(path, data)
        else:
            await self.other.set(path, data)
        await self.notice({"version": 2, "entity_path": entity})

    async def notice(self, notice: Any) -> None:
        data = notice if isinstance(notice, bytes) else json.dumps(notice).encode()
        await self.other.create(f"{CHANGES}/config_change_", data, sequence=True)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits for the condition during a bounded number of loop iterations. No operation takes
        real time."""
        for _ in range(1000):
            if condition():
                return
            await asyncio.sleep(0)
        raise AssertionError("it never came true")

    async def settle(self) -> None:
        """Waits until the broker has applied all written changes."""
        for _ in range(100):
            await asyncio.sleep(0)

    def own(self, name: str = "t") -> dict[str, str]:
        return dict(self.registry.configs(name))

    @property
    def retention_ms(self) -> int | None:
        """The retention of the log of topic t in ms."""
        partition = self.logs.get("t", 0)
        assert partition is not None
        return partition.log.config.retention_ms


Conduct = Callable[[Scene], Coroutine[Any, Any, None]]


def play(folder: Path, conduct: Conduct) -> None:

    async def run() -> None:
        async with asyncio.timeout(120):
            scene = Scene(folder)
            await prepare(scene.other)
            await conduct(scene)

    asyncio.run(run())
