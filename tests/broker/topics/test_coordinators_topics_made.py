"""The first FindCoordinator creates the topic of the coordinator. Requests of other clients do not
wait for the disk during the creation."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from broker.broker import Broker
from protocol.errors import COORDINATOR_NOT_AVAILABLE, NONE
from tests.broker.serving import asked, eventually, serving
from tests.wire import Wire

SETTINGS = {"offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "3"}
KEY_TYPES = pytest.mark.parametrize("key_type", [0, 1], ids=["group", "transaction"])


def find(wire: Wire, key_type: int, version: int = 4) -> dict[str, Any]:
    keys = {"coordinator_keys": ["team", "crew"]} if version >= 4 else {"key": "team"}
    answer = wire.call("FindCoordinator", version, {"key_type": key_type, **keys})
    return answer["coordinators"][0] if version >= 4 else answer


def block_directory_creation(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> tuple[threading.Event, Any]:
    """Blocks the creation of partition directories. Returns an event, and a list of the blocked
    calls. The creation continues when the event is set."""
    gate, came = threading.Event(), []
    make = broker.logs.make

    def held(*topic: Any) -> Any:
        came.append(topic)
        assert gate.wait(20)
        return make(*topic)

    monkeypatch.setattr(broker.logs, "make", held)
    return gate, came


@KEY_TYPES
@pytest.mark.parametrize("version", [1, 4])
async def test_other_requests_are_served_while_a_coordinator_topic_is_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, key_type: int
) -> None:
    async with serving(tmp_path, SETTINGS) as broker:
        gate, came = block_directory_creation(broker, monkeypatch)
        port = broker.sockets.addresses()[0][1]
        with Wire(port) as first, Wire(port) as second:
            for wire in (first, second):
                keys = {"coordinator_keys": ["team"]} if version >= 4 else {"key": "team"}
                wire.send("FindCoordinator", version, {"key_type": key_type, **keys})
            await eventually("the disk is at it", lambda: came)

            answer = await asked(broker, lambda wire: wire.call("ApiVersions", 0))

            assert answer["error_code"] == NONE
            gate.set()
            for wire in (first, second):
                _, found = await asked(broker, lambda _, wire=wire: wire.receive())
                (entry,) = found["coordinators"] if version >= 4 else (found,)
                assert (entry["error_code"], entry["port"]) == (NONE, port)
        assert len(came) == 1
        assert len((broker.groups, broker.transactions)[key_type].hosted_shards) == 3
        assert key_type == 0 or broker.producer_ids.ids.left, "InitProducerId comes next"


@KEY_TYPES
async def test_find_coordinator_creates_the_internal_topic_when_an_earlier_attempt_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key_type: int
) -> None:
    async with serving(tmp_path, SETTINGS) as broker:

        def full(*_: Any) -> Any:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(broker.logs, "make", full)
            refused = await asked(broker, lambda wire: find(wire, key_type))
        assert refused["error_code"] == COORDINATOR_NOT_AVAILABLE

        async def found() -> int:
            code: int = (await asked(broker, lambda wire: find(wire, key_type)))["error_code"]
            return code

        assert await found() == NONE
