"""A stranger learns nothing: no API answers by what is there, and none leaves anything behind.

Two brokers are asked the same, request by request: one has the topic, the group, the transaction,
the rules and the settings that the requests name, the other has nothing. To somebody without any
right both must say the same, byte for byte. Only ApiVersions is answered to everybody; and Metadata
and DescribeCluster name the brokers, as Kafka's do.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import Any

import pytest

from broker.broker import Broker
from protocol.headers import decode_response_header
from protocol.messages.describe_cluster import API as DESCRIBE_CLUSTER
from protocol.messages.metadata import API as METADATA
from protocol.schema import Api
from tests.broker.apis.guard.asking import Asking, Value, guarded_broker
from tests.broker.apis.guard.rules import ADMIN
from tests.broker.every_request import EVERY, asked
from tests.broker.logins.letting_in import broker_with_logins
from tests.broker.serving import asked as asked_of
from tests.wire import Wire, batch

NAMED = "orders"
"""What every request names, of each kind."""
OF_BROKERS = ("brokers", "cluster_id", "controller_id")
"""What says which brokers there are, and of which cluster."""
SAID_OF_BROKERS = (METADATA.key, DESCRIBE_CLUSTER.key)


def requests() -> list[tuple[Api, int, Value]]:
    """Every API in every version: what names something, and what asks for everything."""
    found = []
    for api, version in EVERY:
        value = asked(api, version)
        if api.name == "Produce":
            _with_records(value)
        found.append((api, version, value))
        for field in api.request:
            if isinstance(value.get(field.name), list):
                for everything in ([], None):
                    try:
                        api.encode_request(version, {**value, field.name: everything})
                    except Exception:  # noqa: BLE001 - the version has no such request
                        continue
                    found.append((api, version, {**value, field.name: everything}))
    return found


def _with_records(value: Value) -> None:
    for topic in value["topic_data"]:
        for partition in topic["partition_data"]:
            partition["records"] = batch(b"x")


REQUESTS = requests()


def _answers(wire: Wire) -> list[Any]:
    """What its peer is told; None where the connection is closed."""
    port, user = wire.socket.getpeername()[1], wire.client_id
    found: list[Any] = []
    connection = Wire(port, user)
    for api, version, value in REQUESTS:
        try:
            answer = connection.call(api.name, version, value)
        except ConnectionError:
            found.append(None)
            connection.close()
            connection = Wire(port, user)
            continue
        if api.key in SAID_OF_BROKERS:
            for field in OF_BROKERS:
                answer.pop(field, None)
        found.append(answer)
    connection.close()
    return found


async def _fill(asking: Asking) -> None:
    def talk(wire: Wire) -> None:
        wire.call("InitProducerId", 4, {"transactional_id": NAMED, "transaction_timeout_ms": 9000})
        partitions = [{"partition_index": 0, "committed_offset": 1}]
        topics = [{"name": NAMED, "partitions": partitions}]
        wire.call("OffsetCommit", 8, {"group_id": NAMED, "topics": topics})
        config = {"name": "retention.ms", "value": "1000", "config_operation": 0}
        resource = {"resource_type": 2, "resource_name": NAMED, "configs": [config]}
        wire.call("IncrementalAlterConfigs", 1, {"resources": [resource], "validate_only": False})

    await asking.talk(ADMIN, talk)


async def test_no_api_tells_a_stranger_what_is_there(tmp_path: Path) -> None:
    async with (
        guarded_broker(tmp_path / "full", "bob: ALL TOPIC *", topics=(NAMED, "more")) as full,
        guarded_broker(tmp_path / "empty", topics=()) as empty,
    ):
        await _fill(full)
        before = _state(full.broker), _state(empty.broker)
        there = await full.talk("stranger", _answers)
        nothing = await empty.talk("stranger", _answers)
        assert (_state(full.broker), _state(empty.broker)) == before
    told = [
        (api.name, version, one, other)
        for (api, version, _), one, other in zip(REQUESTS, there, nothing, strict=True)
        if one != other
    ]
    assert told == []
    answered = {
        (api.key, version)
        for (api, version, _), answer in zip(REQUESTS, there, strict=True)
        if answer is not None
    }
    assert answered == {(api.key, version) for api, version in EVERY}


def _state(broker: Broker) -> object:
    """Topics with their settings and ends, groups, transactions and producer ids."""
    topics = {
        name: (topic.partitions, dict(topic.configs))
        for name, topic in broker.registry.topics.items()
    }
    logs = {
        partition.name: partition.log.log_end_offset
        for topic in broker.logs.topics.values()
        for partition in topic.partitions
    }
    groups = [sorted(hosted.core.view.groups) for hosted in broker.groups.hosted_shards]
    ids = [sorted(each.core.view.transactions) for each in broker.transactions.hosted_shards]
    return topics, logs, groups, ids


async def test_the_search_finds_what_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = [each for each in REQUESTS if each[0] is METADATA]
    monkeypatch.setattr(sys.modules[__name__], "REQUESTS", some)
    async with (
        guarded_broker(
            tmp_path / "full", "stranger: DESCRIBE TOPIC orders", topics=(NAMED,)
        ) as full,
        guarded_broker(tmp_path / "empty", topics=()) as empty,
    ):
        there = await full.talk("stranger", _answers)
        nothing = await empty.talk("stranger", _answers)
        assert there != nothing


async def test_before_a_login_only_api_versions_and_the_login_are_answered(tmp_path: Path) -> None:
    """A peer that has said nothing yet is not even told that it lacks a right."""

    def ask(wire: Wire) -> set[str]:
        answered = set()
        for api, version in EVERY:
            with Wire(wire.socket.getpeername()[1]) as connection:
                connection.send(api.name, version, asked(api, version))
                if _is_answered(connection, api, version):
                    answered.add(api.name)
        return answered

    async with broker_with_logins(tmp_path) as (broker, _):
        answered = await asked_of(broker, ask)
    assert answered == {"ApiVersions", "SaslHandshake"}


def _is_answered(connection: Wire, api: Api, version: int) -> bool:
    head = connection.socket.recv(4)
    if not head:
        return False
    size = struct.unpack(">i", head)[0]
    frame = b""
    while len(frame) < size:
        frame += connection.socket.recv(size - len(frame))
    decode_response_header(api.key, version, frame)
    return True
