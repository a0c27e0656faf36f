"""Tests that each ``offsets.topic.*`` setting has an effect on a broker in a separate process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from offsets.partitioner import partition_for
from protocol.errors import COORDINATOR_LOAD_IN_PROGRESS
from protocol.records.batch import iter_batches
from tests.broker.topic_calls import metadata
from tests.brokers import Broker
from tests.waiting import until
from tests.wire import Wire

Brokers = Callable[..., Broker]


def commit(wire: Wire, group: str, offset: int = 1) -> int:
    """Commits one offset without a member. Returns the error code."""
    wire.call("FindCoordinator", 3, {"key": group, "key_type": 0})
    metadata(wire, "t")
    partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": "x" * 100}
    answer = wire.call(
        "OffsetCommit",
        7,
        {
            "group_id": group,
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "topics": [{"name": "t", "partitions": [partition]}],
        },
    )
    error_code: int = answer["topics"][0]["partitions"][0]["error_code"]
    return error_code


def committed(wire: Wire, group: str) -> int:
    """Waits until the group is loaded. Returns its committed offset."""
    asked = {"group_id": group, "topics": [{"name": "t", "partition_indexes": [0]}]}

    def answered() -> dict[str, Any] | None:
        answer = wire.call("OffsetFetch", 5, asked)
        return None if answer["error_code"] == COORDINATOR_LOAD_IN_PROGRESS else answer

    answer = until("the group is loaded", answered)
    assert answer is not None
    offset: int = answer["topics"][0]["partitions"][0]["committed_offset"]
    return offset


def segments(broker: Broker, partition: int) -> list[Path]:
    return sorted(broker.partition_folder("__consumer_offsets", partition).glob("*.log"))


def test_offsets_topic_has_the_configured_number_of_partitions(brokers: Brokers) -> None:
    broker = brokers({"offsets.topic.num.partitions": "7"})
    with Wire(broker.port) as wire:
        assert commit(wire, "g") == 0

        (topic,) = metadata(wire, "__consumer_offsets")["topics"]

    assert len(topic["partitions"]) == 7
    assert segments(broker, partition_for("g", 7))[0].stat().st_size > 0


@pytest.mark.campaign
def test_changed_offsets_topic_num_partitions_is_logged_once_and_ignored(brokers: Brokers) -> None:
    broker = brokers({"offsets.topic.num.partitions": "3"})
    with Wire(broker.port) as wire:
        commit(wire, "g", 41)
    broker.stop()
    broker.settings["offsets.topic.num.partitions"] = "5"
    broker.log.clear()
    broker.start()

    with Wire(broker.port) as wire:
        (topic,) = metadata(wire, "__consumer_offsets")["topics"]
        assert committed(wire, "g") == 41

    assert len(topic["partitions"]) == 3
    warnings = [line for line in broker.lines() if "offsets.topic.num.partitions ignored" in line]
    assert len(warnings) == 1


def test_segments_of_the_offsets_topic_roll_at_segment_bytes(brokers: Brokers) -> None:
    broker = brokers({"offsets.topic.segment.bytes": "1000", "offsets.topic.num.partitions": "1"})
    with Wire(broker.port) as wire:
        for offset in range(20):
            assert commit(wire, "g", offset) == 0

    assert len(segments(broker, 0)) >= 4


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("codec", "name"), [(0, "none"), (1, "gzip"), (2, "snappy"), (3, "lz4"), (4, "zstd")]
)
def test_offsets_are_written_and_loaded_with_the_configured_codec(
    brokers: Brokers, codec: int, name: str
) -> None:
    broker = brokers(
        {"offsets.topic.compression.codec": str(codec), "offsets.topic.num.partitions": "1"}
    )
    with Wire(broker.port) as wire:
        assert commit(wire, "g", 5) == 0

    data = segments(broker, 0)[0].read_bytes()
    assert {header.compression for header, _ in iter_batches(data)} == {codec}
    broker.kill()
    broker.start()
    with Wire(broker.port) as wire:
        assert committed(wire, "g") == 5


@pytest.mark.parametrize(("factor", "lines"), [("3", 1), ("1", 0)])
def test_offsets_replication_factor_is_lowered_to_the_number_of_brokers(
    brokers: Brokers, factor: str, lines: int
) -> None:
    broker = brokers({"offsets.topic.replication.factor": factor})
    with Wire(broker.port) as wire:
        assert commit(wire, "g") == 0
        (topic,) = metadata(wire, "__consumer_offsets")["topics"]
        assert topic["partitions"][0]["replica_nodes"] == [1]
    broker.stop()

    said = [line for line in broker.lines() if "offsets.topic.replication.factor lowered" in line]
    assert len(said) == lines


def test_offsets_topic_is_created_with_kafkas_topic_settings(brokers: Brokers) -> None:
    broker = brokers({"offsets.topic.segment.bytes": "5000"})
    with Wire(broker.port) as wire:
        commit(wire, "g")
        resource = {
            "resource_type": 2,
            "resource_name": "__consumer_offsets",
            "configuration_keys": ["cleanup.policy", "compression.type", "segment.bytes"],
        }
        answer = wire.call("DescribeConfigs", 4, {"resources": [resource]})

    told = {entry["name"]: entry["value"] for entry in answer["results"][0]["configs"]}
    assert told == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "5000",
    }
