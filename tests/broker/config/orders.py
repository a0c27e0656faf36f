"""The topic ``orders`` with one partition on a broker in this process, and requests that alter its
settings."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from log.partition_log import PartitionLog
from protocol.messages import BY_NAME
from protocol.records.batch import encode_batch
from protocol.records.section import Record
from tests.broker.config.served import Served, serving
from tests.broker.config_calls import BROKER, DELETE, SET, TOPIC
from tests.broker.topic_calls import fetch_request, produce_request

NAME = "orders"


def records(
    *values: bytes | None, timestamp_ms: int = -1, key: bytes | None = None, **fields: Any
) -> bytes:
    """Returns one batch with these values. All its records have the same timestamp and key."""
    rows = [Record(i, timestamp_ms, key, value) for i, value in enumerate(values)]
    return encode_batch(rows, base_offset=0, **fields)


class Orders:
    """Sends client requests for the topic ``orders``, and gives tests access to the log of its
    partition 0."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.broker = served.broker

    @property
    def log(self) -> PartitionLog:
        return self.broker.logs.topics[NAME].partitions[0].log

    @property
    def now_ms(self) -> int:
        """The wall clock time in ms."""
        return self.served.time.wall_ms

    def pass_ms(self, milliseconds: int) -> None:
        self.served.pass_ms(milliseconds)

    async def call(self, api: str, version: int, value: dict[str, Any]) -> dict[str, Any]:
        return await self.served.client.call(BY_NAME[api].key, version, **value)

    async def alter(self, settings: dict[str, str | None], name: str = NAME) -> None:
        """Sets dynamic settings of a topic. The value None deletes a setting."""
        await self._alter(TOPIC, name, settings)

    async def alter_broker(self, settings: dict[str, str | None], name: str = "") -> None:
        """Sets dynamic settings of the broker ``name``, or of the cluster default if ``name`` is
        empty. The value None deletes a setting."""
        await self._alter(BROKER, name, settings)

    async def _alter(self, kind: int, name: str, settings: dict[str, str | None]) -> None:
        configs = [
            {"name": key, "config_operation": DELETE if text is None else SET, "value": text}
            for key, text in settings.items()
        ]
        resource = {"resource_type": kind, "resource_name": name, "configs": configs}
        answer = await self.call("IncrementalAlterConfigs", 1, {"resources": [resource]})
        (entry,) = answer["responses"]
        assert entry["error_code"] == 0, entry["error_message"]

    async def produce(self, batch: bytes | None = None, acks: int = -1) -> dict[str, Any]:
        """Sends one batch. Returns the response for the partition. The default batch has one record
        with the current time."""
        data = records(b"x" * 100, timestamp_ms=self.now_ms) if batch is None else batch
        answer = await self.call("Produce", 9, produce_request(NAME, data, acks=acks))
        entry: dict[str, Any] = answer["responses"][0]["partition_responses"][0]
        return entry

    async def fill(self, batches: int = 3) -> None:
        for _ in range(batches):
            assert (await self.produce())["error_code"] == 0

    async def error_of_produce(self, **fields: Any) -> int:
        """Produces one record. Returns the error code of the partition."""
        code: int = (await self.produce(records(b"v", **fields)))["error_code"]
        return code

    async def fetch(self, version: int) -> dict[str, Any]:
        answer = await self.call("Fetch", version, fetch_request(NAME))
        entry: dict[str, Any] = answer["responses"][0]["partitions"][0]
        return entry


@asynccontextmanager
async def orders_of(directory: Path, **settings: Any) -> AsyncIterator[Orders]:
    """Starts a broker with ``settings``, and yields an `Orders` for its topic. The names of the
    settings contain ``_`` in place of ``.``."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    async with serving(directory, named) as served:
        yield Orders(served)
