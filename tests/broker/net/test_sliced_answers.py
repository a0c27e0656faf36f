"""A response that is built in many slices equals the response that is built in one slice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.broker.serving import asked, serving
from tests.wire import Wire

TOPICS = [f"topic-{number:02}" for number in range(12)]

QUESTIONS: list[tuple[str, int, dict[str, Any]]] = [
    ("Metadata", 12, {"topics": None, "include_topic_authorized_operations": True}),
    ("Metadata", 9, {"topics": [{"name": name} for name in [*TOPICS, "none", "a/b"]]}),
    ("DescribeTopicPartitions", 0, {"topics": [], "response_partition_limit": 20}),
    (
        "DescribeTopicPartitions",
        0,
        {
            "topics": [],
            "response_partition_limit": 20,
            "cursor": {"topic_name": "topic-03", "partition_index": 2},
        },
    ),
    (
        "DescribeConfigs",
        4,
        {"resources": [{"resource_type": 2, "resource_name": n} for n in TOPICS]},
    ),
    ("DescribeConfigs", 1, {"resources": [{"resource_type": 4, "resource_name": ""}] * 3}),
    ("DescribeLogDirs", 4, {"topics": None}),
    (
        "ListOffsets",
        7,
        {"topics": [{"name": n, "partitions": [{"timestamp": -1}]} for n in TOPICS]},
    ),
    (
        "OffsetForLeaderEpoch",
        4,
        {"topics": [{"topic": n, "partitions": [{"partition": 1}]} for n in TOPICS]},
    ),
    (
        "DescribeProducers",
        0,
        {"topics": [{"name": n, "partition_indexes": [0, 1, 1, 9]} for n in TOPICS]},
    ),
    (
        "ElectLeaders",
        2,
        {"topic_partitions": [{"topic": n, "partitions": [0, 9]} for n in TOPICS]},
    ),
    ("ListConfigResources", 1, {"resource_types": []}),
    ("FindCoordinator", 4, {"coordinator_keys": TOPICS}),
    ("DescribeGroups", 6, {"groups": [f"group-{n}" for n in range(12)]}),
    ("ListGroups", 5, {}),
    ("OffsetFetch", 8, {"groups": [{"group_id": f"group-{n}", "topics": None} for n in range(12)]}),
    ("DeleteGroups", 2, {"groups_names": ["none", "nobody"]}),
]


def _fill(wire: Wire) -> None:
    topics = [{"name": n, "num_partitions": 3, "replication_factor": 1} for n in TOPICS]
    made = wire.call("CreateTopics", 5, {"topics": topics})
    assert not any(topic["error_code"] for topic in made["topics"])
    wire.call("FindCoordinator", 4, {"coordinator_keys": ["group-0"]})
    entry = {"partition_index": 1, "committed_offset": 5, "committed_metadata": ""}
    for number in range(8):
        topics = [{"name": name, "partitions": [entry]} for name in TOPICS]
        value = {"group_id": f"group-{number}", "topics": topics}
        wire.call("OffsetCommit", 8, {**value, "generation_id_or_member_epoch": -1})


@pytest.mark.campaign
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: f"{question[0]}-{question[1]}")
async def test_response_built_in_many_slices_equals_response_of_one_slice(
    tmp_path: Path, question: tuple[str, int, dict[str, Any]]
) -> None:
    name, version, value = question
    async with serving(tmp_path) as broker:
        await asked(broker, _fill)
        at_once = await asked(broker, lambda wire: wire.call(name, version, value))
        broker.slicer.slice_ns = 0
        in_slices = await asked(broker, lambda wire: wire.call(name, version, value))
    for answer in (at_once, in_slices):
        for directory in answer.get("results", ()):
            directory.pop("usable_bytes", None)  # Other processes write to the same disk.
    assert in_slices == at_once
