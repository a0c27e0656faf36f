from __future__ import annotations

import asyncio
import errno
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from log.files.filesystem import OsFileSystem
from protocol.errors import KAFKA_STORAGE_ERROR, NONE, UNKNOWN_TOPIC_OR_PARTITION
from protocol.messages import BY_NAME
from tests.broker.config.orders import NAME, Orders, orders_of
from tests.broker.config.served import serving
from tests.broker.config_calls import BROKER, SET, TOPIC
from tests.broker.edge import Client, eventually


def alter_request(kind: int, name: str, setting: str, text: str) -> dict[str, Any]:
    configs = [{"name": setting, "config_operation": SET, "value": text}]
    return {"resources": [{"resource_type": kind, "resource_name": name, "configs": configs}]}


DELETE = {"topics": [{"name": NAME, "topic_id": bytes(16)}], "timeout_ms": 1000}
GROW = {"topics": [{"name": NAME, "count": 5, "assignments": None}], "timeout_ms": 1000}
ALTER = alter_request(TOPIC, NAME, "retention.ms", "5")


@contextmanager
def blocked_stores(orders: Orders) -> Iterator[Callable[[], int]]:
    """Blocks registry writes until the context ends. Yields a function that returns the number of
    blocked writes."""
    gate, waiting = threading.Event(), []
    store = orders.broker.registry.store

    def held(*change: Any) -> None:
        waiting.append(change)
        assert gate.wait(20)
        store(*change)

    orders.broker.registry.store = held  # type: ignore[method-assign]
    try:
        yield lambda: len(waiting)
    finally:
        orders.broker.registry.store = store  # type: ignore[method-assign]
        gate.set()


async def send_concurrently(
    orders: Orders, *requests: tuple[str, int, dict[str, Any]]
) -> list[Any]:
    """Sends all requests, each on its own connection, before the write of the first request ends.
    Returns the responses to the requests."""
    port = orders.broker.sockets.addresses()[0][1]
    clients = [await Client.connect(port) for _ in requests]
    sent = []
    with blocked_stores(orders) as waiting:
        for client, (api, version, value) in zip(clients, requests, strict=True):
            sent.append(client.send(BY_NAME[api].key, version, **value))
            await eventually(waiting)
        await asyncio.sleep(0)
    answers = [await client.receive(each) for client, each in zip(clients, sent, strict=True)]
    for client in clients:
        client.close()
    return answers


async def test_topic_is_deleted_when_alter_configs_and_delete_run_concurrently(
    tmp_path: Path,
) -> None:
    async with orders_of(tmp_path) as orders:
        altered, deleted = await send_concurrently(
            orders, ("IncrementalAlterConfigs", 1, ALTER), ("DeleteTopics", 6, DELETE)
        )
        assert altered["responses"][0]["error_code"] == NONE
        assert deleted["responses"][0]["error_code"] == NONE
        assert orders.broker.registry.topic(NAME) is None
        again = await orders.call("IncrementalAlterConfigs", 1, ALTER)
        assert again["responses"][0]["error_code"] == UNKNOWN_TOPIC_OR_PARTITION
    stored = json.loads((tmp_path / "topics.json").read_text())["topics"]
    assert NAME not in [topic["name"] for topic in stored]


async def test_concurrent_create_partitions_and_alter_configs_both_take_effect(
    tmp_path: Path,
) -> None:
    requests = [("CreatePartitions", 3, GROW), ("IncrementalAlterConfigs", 1, ALTER)]
    for place, order in enumerate((requests, requests[::-1])):
        async with orders_of(tmp_path / str(place)) as orders:
            await send_concurrently(orders, *order)
            topic = orders.broker.registry.topic(NAME)
            assert topic is not None
            assert (topic.partitions, topic.configs) == (5, {"retention.ms": "5"})
            partitions = orders.broker.logs.topics[NAME].partitions
            assert [each.log.config.retention_ms for each in partitions] == [5] * 5


class FullDisk(OsFileSystem):
    """A file system on which writes of JSON files fail if ``full`` is set, as on a full disk."""

    full = False

    def rename(self, old: str, new: str) -> None:
        if self.full and new.endswith(".json"):
            raise OSError(errno.ENOSPC, "No space left on device", new)
        super().rename(old, new)


@pytest.mark.parametrize(
    ("kind", "name", "setting"),
    [(TOPIC, NAME, "retention.ms"), (BROKER, "1", "log.retention.ms"), (BROKER, "", "log.roll.ms")],
)
async def test_alter_configs_has_no_effect_when_the_disk_is_full(
    tmp_path: Path, kind: int, name: str, setting: str
) -> None:
    fs = FullDisk()
    async with serving(tmp_path, fs=fs) as served:
        orders = Orders(served)
        before = dict(orders.broker.logs.topics[NAME].settings)
        fs.full = True
        request = alter_request(kind, name, setting, "5")
        (answer,) = (await orders.call("IncrementalAlterConfigs", 1, request))["responses"]
        fs.full = False

        assert answer["error_code"] == KAFKA_STORAGE_ERROR
        assert answer["error_message"] == "The disk reports: No space left on device."
        assert orders.broker.logs.topics[NAME].settings == before
        assert orders.broker.registry.broker_configs == {}
        (answer,) = (await orders.call("IncrementalAlterConfigs", 1, request))["responses"]
        assert answer["error_code"] == NONE
