"""A broker serves all partitions, even if it may open fewer files than it has partitions."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.brokers import COMMAND, KIND, Broker
from tests.wire import Wire, batch, values_of

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(
        sys.platform != "linux" or KIND != "muster", reason="counts a Muster's descriptors"
    ),
]
PER_REQUEST = 100


def chunks(partitions: int) -> list[range]:
    return [
        range(first, min(first + PER_REQUEST, partitions))
        for first in range(0, partitions, PER_REQUEST)
    ]


def produce_everywhere(wire: Wire, partitions: int, value: bytes) -> None:
    for chunk in chunks(partitions):
        data = [{"index": n, "records": batch(value + b" %d" % n)} for n in chunk]
        topic = {"name": "t", "topic_id": bytes(16), "partition_data": data}
        request: dict[str, Any] = {"transactional_id": None, "acks": -1, "timeout_ms": 10_000}
        answer = wire.call("Produce", 9, {**request, "topic_data": [topic]})
        answers = answer["responses"][0]["partition_responses"]
        assert {entry["error_code"] for entry in answers} == {0}


def fetch_everywhere(wire: Wire, partitions: int) -> list[list[bytes | None]]:
    found = []
    for chunk in chunks(partitions):
        asked = [{"partition": n, "fetch_offset": 0, "partition_max_bytes": 1 << 20} for n in chunk]
        topics = [{"topic": "t", "partitions": asked}]
        answer = wire.call("Fetch", 4, {"max_wait_ms": 0, "min_bytes": 1, "topics": topics})
        for entry in answer["responses"][0]["partitions"]:
            assert entry["error_code"] == 0
            found.append(values_of(entry["records"]))
    return found


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("partitions", "limit"), [(300, 100), pytest.param(10_000, 1024, marks=pytest.mark.soak)]
)
def test_all_partitions_are_served_when_the_open_file_limit_is_below_their_number(
    brokers: Callable[..., Broker], partitions: int, limit: int
) -> None:
    shell = ["sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh"]
    broker = brokers({"log.segment.bytes": "1048576"}, command=[*shell, *COMMAND])

    def all_is_there(*values: bytes) -> None:
        with Wire(broker.port) as wire:
            found = fetch_everywhere(wire, partitions)
        assert found == [[value + b" %d" % n for value in values] for n in range(partitions)]
        assert len(os.listdir(f"/proc/{broker.pid}/fd")) < limit * 0.75

    with Wire(broker.port) as wire:
        for chunk in chunks(partitions):
            topic = {"name": "t", "num_partitions": chunk.stop, "replication_factor": 1}
            if not chunk.start:
                made = wire.call("CreateTopics", 4, {"topics": [topic], "timeout_ms": 60_000})
                assert made["topics"][0]["error_code"] == 0
                continue
            more = {"name": "t", "count": chunk.stop, "assignments": None}
            grown = wire.call("CreatePartitions", 1, {"topics": [more], "timeout_ms": 60_000})
            assert grown["results"][0]["error_code"] == 0
        produce_everywhere(wire, partitions, b"first")
    all_is_there(b"first")
    broker.kill()
    broker.start()
    all_is_there(b"first")
    with Wire(broker.port) as wire:
        produce_everywhere(wire, partitions, b"second")
    all_is_there(b"first", b"second")
    assert broker.stop() in (0, 143)
    broker.start()
    all_is_there(b"first", b"second")
