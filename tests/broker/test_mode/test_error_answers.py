"""Test mode can inject each error into the responses of each API, in every version and for every
element of the request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.apis.tables.standalone import SERVED
from broker.net.error_answers import OF_ELEMENTS, error_answer
from broker.test_mode.requests.decoded import error_names
from broker.test_mode.requests.interposed import Interposed
from broker.test_mode.requests.request_recorder import RequestRecorder
from broker.test_mode.requests.rules import Fail, Filter
from broker.time import Time
from protocol import errors
from protocol.messages.alter_replica_log_dirs import API as ALTER_REPLICA_LOG_DIRS
from protocol.messages.api_versions import API as API_VERSIONS
from protocol.messages.describe_log_dirs import API as DESCRIBE_LOG_DIRS
from protocol.messages.fetch import API as FETCH
from protocol.messages.metadata import API as METADATA
from protocol.messages.produce import API as PRODUCE
from protocol.schema import (
    Api,
)
from tests.broker.edge import Client, eventually
from tests.broker.every_request import EVERY, ORDERS_ID, asked
from tests.broker.serving import serving

BY_TABLES = [
    (api, version)
    for api, version in EVERY
    if api not in (ALTER_REPLICA_LOG_DIRS, DESCRIBE_LOG_DIRS)
]
"""All APIs in all versions, except AlterReplicaLogDirs and DescribeLogDirs. A response of these two
APIs does not have one element for each element of the request."""
NAME_NOTHING = ("CreateAcls", "DeleteAcls", "WriteTxnMarkers")
"""APIs whose response elements have no names. The n-th element of a response belongs to the n-th
element of the request."""
CODES = [code for code in errors.NAMES if code]


@pytest.mark.parametrize(("api", "version"), BY_TABLES, ids=str)
def test_every_error_can_be_injected_in_each_response_version(api: Api, version: int) -> None:
    request = api.decode_request(version, api.encode_request(version, asked(api, version)))
    for code in CODES:
        answer = error_answer(api, version, request, code, "why")
        seen = api.decode_response(version, api.encode_response(version, answer))
        assert error_names(seen) == [errors.NAMES[code]]


@pytest.mark.parametrize(("api", "version"), BY_TABLES, ids=str)
def test_response_with_an_injected_error_names_the_topics_of_the_request(
    api: Api, version: int
) -> None:
    request = api.decode_request(version, api.encode_request(version, asked(api, version)))
    answer = error_answer(api, version, request, errors.NOT_COORDINATOR, "why")
    for elements in (each for each in answer.values() if isinstance(each, list)):
        assert len(elements) == 1
        named = {value for value in _plain(elements[0]) if value in ("orders", ORDERS_ID)}
        assert named or api.name in NAME_NOTHING, elements


def _plain(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [each for part in value.values() for each in _plain(part)]
    if isinstance(value, list):
        return [each for part in value for each in _plain(part)]
    return [value]


def test_injected_partition_error_is_set_in_the_partitions_and_not_at_the_top_level() -> None:
    api = SERVED[9].api
    request = api.decode_request(7, api.encode_request(7, asked(api, 7)))
    whole = error_answer(api, 7, request, errors.NOT_COORDINATOR, "why")
    assert whole["error_code"] == errors.NOT_COORDINATOR
    of_partitions = error_answer(api, 7, request, errors.UNSTABLE_OFFSET_COMMIT, "why")
    assert of_partitions["error_code"] == errors.NONE
    partition = of_partitions["topics"][0]["partitions"][0]
    assert partition["error_code"] == errors.UNSTABLE_OFFSET_COMMIT
    assert partition["committed_offset"] == -1


def test_injected_error_is_set_at_top_level_when_the_request_has_no_partitions() -> None:
    api = SERVED[9].api
    code = next(iter(OF_ELEMENTS))
    everything = {"topics": None, "group_id": "billing"}
    assert error_answer(api, 7, everything, code, "why")["error_code"] == code


async def test_broker_returns_an_injected_error_for_each_api_and_version(tmp_path: Path) -> None:
    recorder = RequestRecorder(Time())
    interposed = Interposed(recorder)
    async with serving(tmp_path, interpose=interposed) as broker:
        rule = Fail(Filter(), errors.NOT_COORDINATOR)
        interposed.begin(rule)
        client = await Client.connect(broker.sockets.addresses()[0][1])
        for api, version in EVERY:
            answer = await client.call(api.key, version, **asked(api, version))
            assert error_names(answer) == ["NOT_COORDINATOR"], (api, version)
        assert rule.hits == len(EVERY)
        rows = [entry.row() for entry in recorder.entries()]
        assert [row["error"] for row in rows] == ["NOT_COORDINATOR"] * len(EVERY)
        assert not [row for row in rows if "unreadable" in row["request"]]
        rule.finish()
        answer = await client.call(METADATA.key, 9, topics=[])
        assert answer["topics"] == []
        client.close()


async def test_metadata_response_with_an_injected_topic_error_still_lists_the_broker(
    tmp_path: Path,
) -> None:
    interposed = Interposed(RequestRecorder(Time()))
    async with serving(tmp_path, interpose=interposed) as broker:
        await broker.topics.ensure("orders")
        interposed.begin(Fail(Filter(METADATA), errors.LEADER_NOT_AVAILABLE))
        client = await Client.connect(broker.sockets.addresses()[0][1])
        answer = await client.call(METADATA.key, 9, topics=None)
        assert [each["node_id"] for each in answer["brokers"]] == [answer["controller_id"]]
        assert [(each["name"], each["error_code"]) for each in answer["topics"]] == [
            ("orders", errors.LEADER_NOT_AVAILABLE)
        ]
        client.close()


async def test_injected_unsupported_version_error_of_api_versions_is_sent_in_version_0(
    tmp_path: Path,
) -> None:
    interposed = Interposed(RequestRecorder(Time()))
    async with serving(tmp_path, interpose=interposed) as broker:
        interposed.begin(Fail(Filter(API_VERSIONS), errors.UNSUPPORTED_VERSION))
        client = await Client.connect(broker.sockets.addresses()[0][1])
        client.send(API_VERSIONS.key, 3, client_software_name="a", client_software_version="1")
        frame = await client.receive_raw()
        answer = API_VERSIONS.decode_response(0, frame, 4)
        assert answer["error_code"] == errors.UNSUPPORTED_VERSION
        client.close()


async def test_injected_error_of_produce_with_acks_0_closes_the_connection(tmp_path: Path) -> None:
    recorder = RequestRecorder(Time())
    interposed = Interposed(recorder)
    async with serving(tmp_path, interpose=interposed) as broker:
        interposed.begin(Fail(Filter(PRODUCE), errors.NOT_LEADER_OR_FOLLOWER))
        client = await Client.connect(broker.sockets.addresses()[0][1])
        client.send(PRODUCE.key, 3, **{**asked(PRODUCE, 3), "acks": 0, "transactional_id": None})
        assert await client.closed_by_peer()
        await eventually(lambda: not interposed.connections)
        (row,) = [entry.row() for entry in recorder.entries()]
        assert (row["outcome"], row["response"]) == ("wants no answer", None)


async def test_injected_fetch_error_is_returned_for_partitions_of_an_incremental_fetch(
    tmp_path: Path,
) -> None:
    interposed = Interposed(RequestRecorder(Time()))
    async with serving(tmp_path, interpose=interposed) as broker:
        await broker.topics.ensure("orders")
        client = await Client.connect(broker.sockets.addresses()[0][1])

        async def fetch(session_id: int, epoch: int, *topics: str) -> dict[str, Any]:
            wanted = [
                {"topic": name, "partitions": [{"partition": 0, "partition_max_bytes": 1000}]}
                for name in topics
            ]
            return await client.call(
                FETCH.key,
                12,
                max_wait_ms=1,
                max_bytes=1000,
                session_id=session_id,
                session_epoch=epoch,
                topics=wanted,
            )

        session_id = (await fetch(0, 0, "orders"))["session_id"]
        assert session_id
        rule = Fail(Filter(topic="orders"), errors.OFFSET_OUT_OF_RANGE)
        interposed.begin(rule)
        failed = await fetch(session_id, 1)
        assert failed["error_code"] == errors.NONE
        assert failed["session_id"] == session_id
        (partition,) = failed["responses"][0]["partitions"]
        assert failed["responses"][0]["topic"] == "orders"
        assert partition["error_code"] == errors.OFFSET_OUT_OF_RANGE
        rule.finish()
        assert (await fetch(session_id, 2))["error_code"] == errors.NONE
        client.close()
