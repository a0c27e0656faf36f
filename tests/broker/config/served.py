"""A complete broker in this process with a mock clock, configured with Kafka's property names."""

from __future__ import annotations

import ast
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from broker.broker import Broker
from broker.config.config import Config
from broker.cores.hosted_shard import HostedShard
from broker.topics.registry import OFFSETS_TOPIC
from log.files.filesystem import FileSystem
from protocol.messages.describe_configs import API as DESCRIBE_CONFIGS
from protocol.messages.join_group import API as JOIN_GROUP
from tests.broker.edge import Client, eventually
from tests.broker.mock_time import IDLE_MS, MockTime

GROUP = "auditors"
MINUTE_MS = 60_000
BROKER_RESOURCE = 4
STATIC_BROKER_SOURCE, DEFAULT_SOURCE = 4, 5

Test = TypeVar("Test", bound=Callable[..., Any])


def shows(*settings: str) -> Callable[[Test], Test]:
    """Declares the settings that a test covers. The test must fail if the broker ignores one of
    them."""
    assert settings

    def unchanged(test: Test) -> Test:
        return test

    return unchanged


def alters(*settings: str) -> Callable[[Test], Test]:
    """Declares the topic settings that a test alters while the broker runs."""
    assert settings

    def unchanged(test: Test) -> Test:
        return test

    return unchanged


def declared_settings(decorator: str) -> Iterator[str]:
    """Yields the settings that tests of this folder pass to a decorator. ``decorator`` is the name
    of the decorator."""
    for path in Path(__file__).parent.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for each in node.decorator_list:
                    if isinstance(each, ast.Call) and getattr(each.func, "id", "") == decorator:
                        assert node.name.startswith("test_")
                        yield from (ast.literal_eval(argument) for argument in each.args)


class Served:
    """A running broker with the topic ``orders`` of 3 partitions, and one client."""

    def __init__(self, broker: Broker, time: MockTime, client: Client) -> None:
        self.broker = broker
        self.time = time
        self.client = client

    @property
    def hosted(self) -> HostedShard:
        """The shard of GROUP with its log."""
        found = self.broker.groups.hosted_for(GROUP)
        assert found is not None
        return found

    def pass_ms(self, milliseconds: int) -> None:
        """Advances both clocks, and then runs the work of the broker that has become due."""
        self.time.move(milliseconds)
        self.broker.groups.tick()
        for partition in self.broker.logs.all():
            partition.expire()

    def send_join(self, group_id: str = GROUP, session_timeout_ms: int = 30_000) -> Any:
        """Sends JoinGroup version 3 for a new member. This version does not return
        MEMBER_ID_REQUIRED (KIP-394)."""
        return self.client.send(
            JOIN_GROUP.key,
            3,
            group_id=group_id,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=60_000,
            member_id="",
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b""}],
        )

    async def join(self, **more: Any) -> int:
        """Sends JoinGroup for a new member. Returns the error code of the response."""
        code: int = (await self.client.receive(self.send_join(**more)))["error_code"]
        return code

    async def described(self) -> dict[str, dict[str, Any]]:
        """Returns the settings of this broker in a DescribeConfigs response, by name."""
        node_id = str(self.broker.registry.node_id)
        reply = await self.client.call(
            DESCRIBE_CONFIGS.key,
            4,
            resources=[
                {
                    "resource_type": BROKER_RESOURCE,
                    "resource_name": node_id,
                    "configuration_keys": None,
                }
            ],
            include_synonyms=True,
            include_documentation=True,
        )
        (result,) = reply["results"]
        assert result["error_code"] == 0, result["error_message"]
        return {entry["name"]: entry for entry in result["configs"]}

    @contextmanager
    def held_flush(self) -> Iterator[None]:
        """Blocks flushes of the log of GROUP's shard until the context ends."""
        gate, log = threading.Event(), self.hosted.log
        flush = log.flush

        def held() -> int:
            assert gate.wait(20)
            return flush()

        log.flush = held  # type: ignore[method-assign]
        try:
            yield
        finally:
            log.flush = flush  # type: ignore[method-assign]
            gate.set()


def config(directory: Path, **settings: Any) -> Config:
    """Returns the configuration of a small broker on a free port. The value None leaves a setting
    unset."""
    given = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": directory,
        "http.listener": "off",
        "offsets.topic.num.partitions": 2,
        "offsets.topic.replication.factor": 1,
        **settings,
    }
    return Config({name: str(value) for name, value in given.items() if value is not None})


@asynccontextmanager
async def serving(
    directory: Path,
    settings: dict[str, Any] | None = None,
    *,
    fs: FileSystem | None = None,
    opened: Callable[[], None] = lambda: None,
) -> AsyncIterator[Served]:
    """Yields a broker on ``directory`` whose groups are loaded. Calls ``opened`` before the groups
    are loaded."""
    time = MockTime()
    wanted = {"connections.max.idle.ms": IDLE_MS, **(settings or {})}
    broker = Broker(config(directory, **wanted), fs=fs, time=time)
    broker.open()
    opened()
    try:
        await broker.start()
        if broker.registry.topic("orders") is None:
            await broker.topics.create("orders", 3, {})
        await broker.topics.ensure(OFFSETS_TOPIC)
        await eventually(lambda: not broker.groups.life.loading)
        client = await Client.connect(broker.sockets.addresses()[0][1])
        yield Served(broker, time, client)
        client.close()
    finally:
        await broker.stop()
