"""OffsetCommit and OffsetFetch version 0: offsets by ZooKeeper's consumer paths, not of the log.

No generation, no member, no retention: a partition that exists takes any offset. The metadata is
checked for its length and then dropped, since the paths hold a number alone. A partition without
an offset is answered UNKNOWN_TOPIC_OR_PARTITION, unlike later versions. Source: Kafka 1.0 and 3.9,
KafkaApis.handleOffsetCommitRequest and handleOffsetFetchRequest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from broker.request import Request, Steps
from protocol.errors import (
    KAFKA_STORAGE_ERROR,
    NONE,
    OFFSET_METADATA_TOO_LARGE,
    UNKNOWN_TOPIC_OR_PARTITION,
)

if TYPE_CHECKING:
    from broker.broker import Broker

logger = structlog.get_logger(__name__)


def commit(broker: Broker, request: Request) -> Steps:
    """Keeps each offset before it is acknowledged."""
    value = request.value
    worst = NONE
    topics = []
    for topic in value["topics"]:
        partitions = []
        for entry in topic["partitions"]:
            partition = entry["partition_index"]
            code = _commit_one(broker, value["group_id"], topic["name"], partition, entry)
            worst = max(worst, code)
            partitions.append({"partition_index": partition, "error_code": code})
            yield None
        topics.append({"name": topic["name"], "partitions": partitions})
    request.respond({"topics": topics}, worst)


def _commit_one(broker: Broker, group_id: str, topic: str, partition: int, entry: object) -> int:
    assert isinstance(entry, dict)
    if not _exists(broker, topic, partition):
        return UNKNOWN_TOPIC_OR_PARTITION
    metadata = entry["committed_metadata"]
    if metadata is not None and len(metadata) > broker.config["offset.metadata.max.bytes"]:
        return OFFSET_METADATA_TOO_LARGE
    try:
        broker.registry.consumer_paths.commit(group_id, topic, partition, entry["committed_offset"])
    except OSError as error:
        logger.error(
            "an offset of the old way could not be kept",
            group=group_id,
            topic=topic,
            partition=partition,
            error=str(error),
        )
        return KAFKA_STORAGE_ERROR
    return NONE


def fetch(broker: Broker, request: Request) -> Steps:
    """Answers what `commit` kept."""
    value = request.value
    paths = broker.registry.consumer_paths
    topics = []
    for topic in value["topics"]:
        partitions = []
        for partition in topic["partition_indexes"]:
            offset = None
            if _exists(broker, topic["name"], partition):
                offset = paths.fetch(value["group_id"], topic["name"], partition)
            partitions.append(
                {
                    "partition_index": partition,
                    "committed_offset": -1 if offset is None else offset,
                    "metadata": "",
                    "error_code": UNKNOWN_TOPIC_OR_PARTITION if offset is None else NONE,
                }
            )
            yield None
        topics.append({"name": topic["name"], "partitions": partitions})
    request.respond({"topics": topics}, NONE)


def _exists(broker: Broker, topic: str, partition: int) -> bool:
    found = broker.registry.topic(topic)
    return found is not None and 0 <= partition < found.partitions
