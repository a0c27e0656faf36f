"""Helpers that send requests about topics and records, with default values for most fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.wire import Wire, batch

CREATE_TOPICS_MAX = 7


def create_topic(
    wire: Wire, name: str, partitions: int = 1, version: int = CREATE_TOPICS_MAX, **fields: Any
) -> dict[str, Any]:
    return create_topics(wire, [topic(name, partitions, **fields)], version)[0]


def create_topics(
    wire: Wire, topics: list[dict[str, Any]], version: int = CREATE_TOPICS_MAX, **fields: Any
) -> list[dict[str, Any]]:
    answer = wire.call("CreateTopics", version, {"topics": topics, "timeout_ms": 10_000, **fields})
    entries: list[dict[str, Any]] = answer["topics"]
    return entries


def topic(
    name: str, partitions: int = 1, configs: Mapping[str, str | None] | None = None, **fields: Any
) -> dict[str, Any]:
    """Returns the entry of one topic for a CreateTopics request."""
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": 1,
        "assignments": [],
        "configs": [{"name": key, "value": value} for key, value in (configs or {}).items()],
        **fields,
    }


def produce(
    wire: Wire,
    name: str,
    records: bytes | None = None,
    partition: int = 0,
    version: int = 9,
    acks: int = -1,
    topic_id: bytes = bytes(16),
    transactional_id: str | None = None,
) -> dict[str, Any]:
    """Produces to one partition and returns the partition's entry in the response."""
    answer = wire.call(
        "Produce",
        version,
        produce_request(
            name, batch(b"v") if records is None else records, partition, acks, topic_id,
            transactional_id,
        ),
    )  # fmt: skip
    entry: dict[str, Any] = answer["responses"][0]["partition_responses"][0]
    return entry


def produce_request(
    name: str,
    records: bytes,
    partition: int = 0,
    acks: int = -1,
    topic_id: bytes = bytes(16),
    transactional_id: str | None = None,
) -> dict[str, Any]:
    """Returns a Produce request for one partition; the topic entry contains both name and topic
    id."""
    return {
        "transactional_id": transactional_id,
        "acks": acks,
        "timeout_ms": 10_000,
        "topic_data": [
            {
                "name": name,
                "topic_id": topic_id,
                "partition_data": [{"index": partition, "records": records}],
            }
        ],
    }


def fetch_request(
    name: str,
    offset: int = 0,
    partition: int = 0,
    topic_id: bytes = bytes(16),
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    partition_max_bytes: int = 1 << 20,
    current_leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
    **fields: Any,
) -> dict[str, Any]:
    """Returns a Fetch request for one partition; the topic entry contains both name and topic
    id."""
    return {
        "max_wait_ms": max_wait_ms,
        "min_bytes": min_bytes,
        "topics": [
            {
                "topic": name,
                "topic_id": topic_id,
                "partitions": [
                    {
                        "partition": partition,
                        "fetch_offset": offset,
                        "partition_max_bytes": partition_max_bytes,
                        "current_leader_epoch": current_leader_epoch,
                        "last_fetched_epoch": last_fetched_epoch,
                    }
                ],
            }
        ],
        "forgotten_topics_data": [],
        "rack_id": "",
        **fields,
    }


def fetch(
    wire: Wire, name: str, offset: int = 0, version: int = 12, **fields: Any
) -> dict[str, Any]:
    """Fetches one partition and returns the partition's entry in the response."""
    answer = wire.call("Fetch", version, fetch_request(name, offset, **fields))
    entry: dict[str, Any] = answer["responses"][0]["partitions"][0]
    return entry


def list_offset(
    wire: Wire,
    name: str,
    timestamp: int,
    version: int = 9,
    partition: int = 0,
    isolation_level: int = 0,
    **fields: Any,
) -> dict[str, Any]:
    """Sends ListOffsets for one partition and returns the partition's entry in the response."""
    wanted = {"partition_index": partition, "timestamp": timestamp, **fields}
    answer = wire.call(
        "ListOffsets",
        version,
        {
            "replica_id": -1,
            "isolation_level": isolation_level,
            "topics": [{"name": name, "partitions": [wanted]}],
        },
    )
    entry: dict[str, Any] = answer["topics"][0]["partitions"][0]
    return entry


def metadata(wire: Wire, *names: str, version: int = 12, create: bool = True) -> dict[str, Any]:
    return wire.call(
        "Metadata",
        version,
        {"topics": [{"name": name} for name in names], "allow_auto_topic_creation": create},
    )


def topic_id(wire: Wire, name: str) -> bytes:
    """Returns the id of a topic; 16 zero bytes if the topic does not exist."""
    (entry,) = metadata(wire, name, create=False)["topics"]
    found: bytes = entry["topic_id"]
    return found


def commit(wire: Wire, offset: int) -> int:
    """Commits ``offset`` for group g in partition t-0 and returns the error code."""
    partition = {"partition_index": 0, "committed_offset": offset}
    topics = [{"name": "t", "partitions": [partition]}]
    answer = wire.call("OffsetCommit", 8, {"group_id": "g", "topics": topics})
    code: int = answer["topics"][0]["partitions"][0]["error_code"]
    return code


def committed(wire: Wire) -> int:
    """Returns the committed offset of group g in t-0. If the group has an error, returns -1000
    minus the error code."""
    topics = [{"name": "t", "partition_indexes": [0]}]
    answer = wire.call("OffsetFetch", 7, {"group_id": "g", "topics": topics})
    offset: int = answer["topics"][0]["partitions"][0]["committed_offset"]
    return offset if not answer["error_code"] else -1000 - answer["error_code"]
