"""A data directory of Apache Kafka, stopped or killed, is opened and has what Kafka promised."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from protocol.errors import COORDINATOR_LOAD_IN_PROGRESS, NONE
from protocol.records.stored import iter_stored, stored_records
from tests.broker.topic_calls import fetch, list_offset, metadata, produce
from tests.brokers import Broker
from tests.waiting import until
from tests.wire import Wire

SOURCES = Path(__file__).parents[1] / "data" / "kafka-dirs"


@pytest.fixture(params=sorted(source.name for source in SOURCES.glob("kafka-*")))
def opened(
    request: pytest.FixtureRequest, make_stopped: Callable[[], Broker]
) -> tuple[Broker, dict[str, Any]]:
    """A broker over a copy of Kafka's directory, and what Kafka told its clients."""
    broker = make_stopped()
    source = SOURCES / request.param
    with tarfile.open(source / "data.tar.xz") as archive:
        archive.extractall(broker.data.parent, filter="data")
    return broker.start(), json.loads((source / "expect.json").read_text())


@pytest.fixture
def make_stopped(brokers: Callable[..., Broker]) -> Callable[[], Broker]:
    """A broker that is not running and whose directory does not exist yet."""

    def make() -> Broker:
        broker = brokers()
        broker.stop()
        shutil.rmtree(broker.data)
        return broker

    return make


def read_all(
    wire: Wire, topic: str, partition: int, version: int = 12, magics: set[int] | None = None
) -> list[tuple[int, bytes | None]]:
    """Every record of a partition, by Fetch after Fetch; ``magics`` gets those of the answers."""
    found: list[tuple[int, bytes | None]] = []
    offset = list_offset(wire, topic, -2, partition=partition)["offset"]
    end = list_offset(wire, topic, -1, partition=partition)["offset"]
    while offset < end:
        answer = fetch(
            wire, topic, offset, version, partition=partition, partition_max_bytes=100_000
        )
        assert answer["error_code"] == NONE
        for header, _ in iter_stored(answer["records"], partial=True):
            if magics is not None:
                magics.add(header.magic)
            if not header.is_control:
                found += [(r.offset, r.value) for r in stored_records(answer["records"], header)]
            offset = header.last_offset + 1
    return found


def test_every_client_reads_every_record(opened: tuple[Broker, dict[str, Any]]) -> None:
    broker, expected = opened
    stored = 1 if expected["kafka"] == "kafka-0.10.2.2" else 2
    with Wire(broker.port) as wire:
        for topic, partitions in expected["topics"].items():
            for version, magic in ((1, 0), (3, 1), (12, stored)):
                if topic == "t-zstd" and magic < 2:
                    continue
                for partition, records in partitions.items():
                    magics: set[int] = set()
                    found = dict(read_all(wire, topic, int(partition), version, magics))
                    assert magics == {magic}
                    for offset, _, value in records:
                        sent = None if value is None else value.encode()
                        assert found[offset] == sent, (topic, partition, offset, version)


def test_every_acknowledged_offset_is_read(opened: tuple[Broker, dict[str, Any]]) -> None:
    broker, expected = opened
    with Wire(broker.port) as wire:
        for group, offsets in expected["groups"].items():
            asked = {"group_id": group, "topics": None}

            def answered(asked: dict[str, Any] = asked) -> dict[str, Any] | None:
                answer = wire.call("OffsetFetch", 5, asked)
                return None if answer["error_code"] == COORDINATOR_LOAD_IN_PROGRESS else answer

            answer = until("the group is loaded", answered)
            assert answer is not None
            found = {
                f"{topic['name']}-{p['partition_index']}": p["committed_offset"]
                for topic in answer["topics"]
                for p in topic["partitions"]
            }
            for place, (offset, _) in offsets.items():
                assert found[place.replace("/", "-")] == offset, (group, place)


def test_it_goes_on_where_kafka_ended(opened: tuple[Broker, dict[str, Any]]) -> None:
    broker, _ = opened
    with Wire(broker.port) as wire:
        end = list_offset(wire, "t-none", -1)["offset"]
        (before,) = metadata(wire, "t-none")["topics"]

        assert produce(wire, "t-none")["base_offset"] == end

    broker.stop()
    broker.start()
    with Wire(broker.port) as wire:
        (after,) = metadata(wire, "t-none")["topics"]
        assert after["topic_id"] == before["topic_id"]
        assert list_offset(wire, "t-none", -1)["offset"] == end + 1
