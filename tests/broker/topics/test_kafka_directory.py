"""Muster opens a data directory of an Apache Kafka that was stopped or killed, and finds every
record and offset that Kafka acknowledged."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.topics.registry import uuid_text
from protocol.errors import COORDINATOR_LOAD_IN_PROGRESS, NONE
from protocol.records.stored import iter_stored, stored_records
from tests.broker.topic_calls import fetch, list_offset, metadata, produce
from tests.brokers import Broker, make_broker
from tests.waiting import until
from tests.wire import Wire

SOURCES = Path(__file__).parents[2] / "data" / "kafka-dirs"


DIRECTORIES = sorted(source.name for source in SOURCES.glob("kafka-*"))


def open_copy(name: str, folder: Path) -> tuple[Broker, dict[str, Any]]:
    """Starts a broker on a copy of a Kafka data directory. Returns the broker, and the responses
    that Kafka had sent to its clients."""
    source = SOURCES / name
    with tarfile.open(source / "data.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return make_broker(folder / "data").start(), json.loads((source / "expect.json").read_text())


@pytest.fixture(scope="module", params=DIRECTORIES)
def opened(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Broker, dict[str, Any]]]:
    """Yields a broker that all read-only tests share, and the responses that Kafka had sent to its
    clients."""
    broker, expected = open_copy(request.param, tmp_path_factory.mktemp("kafka"))
    yield broker, expected
    broker.kill()


def described(wire: Wire, group_id: str) -> dict[str, Any]:
    """Waits until the group is loaded and returns its entry in the DescribeGroups response."""

    def answered() -> dict[str, Any] | None:
        (group,) = wire.call("DescribeGroups", 5, {"groups": [group_id]})["groups"]
        return None if group["error_code"] == COORDINATOR_LOAD_IN_PROGRESS else group

    group = until("the group is loaded", answered)
    assert group is not None
    return group


def read_all(
    wire: Wire, topic: str, partition: int, version: int = 12, magics: set[int] | None = None
) -> list[tuple[int, bytes | None]]:
    """Reads a partition with repeated fetches. Returns offset and value of every record, and adds
    the magic bytes of the batches to ``magics``."""
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


def test_every_record_of_a_kafka_directory_is_read_by_old_and_new_fetch_versions(
    opened: tuple[Broker, dict[str, Any]],
) -> None:
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


def test_every_committed_offset_that_kafka_acknowledged_is_fetched(
    opened: tuple[Broker, dict[str, Any]],
) -> None:
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
                f"{topic['name']}/{p['partition_index']}": [p["committed_offset"], p["metadata"]]
                for topic in answer["topics"]
                for p in topic["partitions"]
            }
            assert {place: found[place] for place in offsets} == offsets, group


def test_every_group_of_a_kafka_directory_is_listed(opened: tuple[Broker, dict[str, Any]]) -> None:
    broker, expected = opened
    with Wire(broker.port) as wire:

        def listed() -> set[str]:
            answer = wire.call("ListGroups", 4, {"states_filter": []})
            return {each["group_id"] for each in answer["groups"]}

        assert until("all groups are loaded", lambda: listed() >= {*expected["groups"]})


def test_topic_ids_are_read_from_the_partition_metadata_of_kafka(
    opened: tuple[Broker, dict[str, Any]],
) -> None:
    broker, expected = opened
    with Wire(broker.port) as wire:
        for topic in metadata(wire, *expected["topics"])["topics"]:
            assert len(topic["partitions"]) == len(expected["topics"][topic["name"]])
            for partition in range(len(topic["partitions"])):
                file = broker.partition_folder(topic["name"], partition) / "partition.metadata"
                assert f"topic_id: {uuid_text(topic['topic_id'])}" in file.read_text()


@pytest.mark.campaign
@pytest.mark.parametrize("name", DIRECTORIES)
def test_first_produced_record_follows_the_last_record_of_kafkas_log(
    tmp_path: Path, name: str
) -> None:
    broker, _ = open_copy(name, tmp_path)
    try:
        with Wire(broker.port) as wire:
            group = described(wire, "live-group")  # first, before the members' sessions expire
            assert (group["group_state"], len(group["members"])) == ("Stable", 2)
            end = list_offset(wire, "t-none", -1)["offset"]
            (before,) = metadata(wire, "t-none")["topics"]

            assert produce(wire, "t-none")["base_offset"] == end

        broker.stop()
        broker.start()
        with Wire(broker.port) as wire:
            (after,) = metadata(wire, "t-none")["topics"]
            assert after["topic_id"] == before["topic_id"]
            assert list_offset(wire, "t-none", -1)["offset"] == end + 1
            assert read_all(wire, "t-none", 0)[-1] == (end, b"v")
    finally:
        broker.kill()
