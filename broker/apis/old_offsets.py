"""OffsetCommit and OffsetFetch version 0: offsets by ZooKeeper's consumer paths, not in the log.

They have no generation, member or retention: a partition that exists takes any offset. The length
of the metadata is checked and the metadata dropped, since the paths hold only a number. A partition
without an offset is answered UNKNOWN_TOPIC_OR_PARTITION, unlike later versions. Source: Kafka 1.0
and 3.9, KafkaApis.handleOffsetCommitRequest and handleOffsetFetchRequest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.net.request import Request, Steps
from broker.topics.registry import OldOffset, Place
from protocol.errors import (
    KAFKA_STORAGE_ERROR,
    NONE,
    OFFSET_METADATA_TOO_LARGE,
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_OR_PARTITION,
)

if TYPE_CHECKING:
    from broker.apis.services import Services


def commit(services: Services, request: Request) -> Steps:
    """Keeps all offsets of a request with one write before it is acknowledged."""
    value = request.value
    group_id = value["group_id"]
    kept: list[OldOffset] = []
    codes: list[int] = []
    for topic in value["topics"]:
        name = topic["name"]
        for entry in topic["partitions"]:
            partition = entry["partition_index"]
            codes.append(_refusal(services, name, partition, entry["committed_metadata"]))
            if not codes[-1]:
                kept.append((group_id, name, partition, entry["committed_offset"]))
            yield None
    stored = NONE
    if kept:
        done = services.old_offsets.keep(kept)
        yield done
        stored = KAFKA_STORAGE_ERROR if done.cancelled() or done.result() is not None else NONE
    answers = iter(codes)
    topics = []
    for topic in value["topics"]:
        partitions = [
            {
                "partition_index": entry["partition_index"],
                "error_code": next(answers) or stored,
            }
            for entry in topic["partitions"]
        ]
        topics.append({"name": topic["name"], "partitions": partitions})
        yield None
    request.respond({"topics": topics}, max([*codes, stored]))


def _refusal(services: Services, topic: str, partition: int, metadata: str | None) -> int:
    if not _exists(services, topic, partition):
        return UNKNOWN_TOPIC_OR_PARTITION
    if metadata is not None and len(metadata) > services.config["offset.metadata.max.bytes"]:
        return OFFSET_METADATA_TOO_LARGE
    return NONE


def fetch(services: Services, request: Request) -> Steps:
    """Answers what `commit` kept."""
    value = request.value
    asked: list[Place] = []
    for topic in value["topics"]:
        for partition in topic["partition_indexes"]:
            if _exists(services, topic["name"], partition):
                asked.append((topic["name"], partition))
            yield None
    fetched = services.old_offsets.fetch(value["group_id"], asked)
    yield fetched
    failed = fetched.cancelled() or fetched.exception() is not None
    offsets = {} if failed else fetched.result()
    absent = UNKNOWN_SERVER_ERROR if failed else UNKNOWN_TOPIC_OR_PARTITION
    topics = []
    for topic in value["topics"]:
        partitions = []
        for partition in topic["partition_indexes"]:
            offset = offsets.get((topic["name"], partition))
            partitions.append(
                {
                    "partition_index": partition,
                    "committed_offset": -1 if offset is None else offset,
                    "metadata": "",
                    "error_code": absent if offset is None else NONE,
                }
            )
            yield None
        topics.append({"name": topic["name"], "partitions": partitions})
    request.respond({"topics": topics}, NONE)


def _exists(services: Services, topic: str, partition: int) -> bool:
    found = services.registry.topic(topic)
    return found is not None and 0 <= partition < found.partitions
