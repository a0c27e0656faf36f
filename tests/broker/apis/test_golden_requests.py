"""Tests that the broker handles every request that Kafka's serializer wrote, without an internal
error.

The values are arbitrary: unknown topics, unusual numbers, empty lists. The broker must send a
response of the request's version or close the connection.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from protocol.messages import BY_NAME
from tests.brokers import Broker
from tests.wire import Wire

GOLDEN = Path(__file__).parents[2] / "data" / "golden" / "api.jsonl"
DATA_APIS = (
    "Produce", "Fetch", "ListOffsets", "Metadata", "CreateTopics", "DeleteTopics",
    "CreatePartitions", "DescribeConfigs", "DescribeCluster", "InitProducerId",
    "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit", "WriteTxnMarkers",
    "DescribeTransactions", "ListTransactions", "DescribeProducers", "FindCoordinator",
)  # fmt: skip


def vectors(name: str) -> Iterator[dict[str, Any]]:
    with GOLDEN.open() as lines:
        for line in lines:
            vector = json.loads(line)
            if vector["api"] == name and vector["type"] == "request":
                yield vector


@pytest.mark.parametrize("name", DATA_APIS)
def test_every_recorded_request_of_kafka_is_handled_without_an_internal_error(
    brokers: Callable[..., Broker], name: str
) -> None:
    broker = brokers()
    api = BY_NAME[name]
    versions = set()
    for vector in vectors(name):
        version, body = vector["version"], bytes.fromhex(vector["hex"])
        acks = api.decode_request(version, body).get("acks")
        with Wire(broker.port) as wire:
            wire.send_body(name, version, body)
            if acks == 0:  # the connection is closed instead of a response
                assert wire.is_closed()
            else:
                wire.receive()
        versions.add(version)

    assert versions == set(range(min(versions), max(versions) + 1))
    assert "request failed: internal error" not in broker.tail(2000)
