"""OffsetCommit and OffsetFetch version 0. Kafka stores their offsets in nodes under ZooKeeper's
consumer paths, not as records in the log.

The group has no generation, members or retention for these offsets, so every existing partition
accepts a commit. The length of the metadata is checked, but the metadata is not stored, since the
ZooKeeper node contains only the offset. Unlike in later versions, the response for a partition
without an offset is UNKNOWN_TOPIC_OR_PARTITION. Source: Kafka 1.0 and 3.9,
KafkaApis.handleOffsetCommitRequest and handleOffsetFetchRequest.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

from broker.apis.shared.authorization import is_allowed, refuse, split
from broker.apis.shared.commit_topics import READ_TOPIC
from broker.net.request import Request, Steps
from broker.net.required_acls import each_shown_topic, group, of_each
from broker.topics.registry import OldOffset, Place
from protocol.errors import (
    GROUP_AUTHORIZATION_FAILED,
    KAFKA_STORAGE_ERROR,
    NONE,
    OFFSET_METADATA_TOO_LARGE,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from security.acls.model import Operation, ResourceType

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

READ_GROUP = group(Operation.READ)
"""The ACL that a commit needs on its group."""
DESCRIBE_GROUP = of_each(ResourceType.GROUP, Operation.DESCRIBE)
DESCRIBE_TOPIC = each_shown_topic()
"""The ACL that an OffsetFetch needs on each of its topics; DESCRIBE_GROUP is the ACL on its group.
"""
_NAME = itemgetter("name")


def commit(services: Services, request: Request) -> Steps:
    """Stores all offsets of a request by one write, and then sends the response."""
    value = request.value
    group_id = value["group_id"]
    if not is_allowed(services, request, READ_GROUP, group_id):
        refuse(request, GROUP_AUTHORIZATION_FAILED, _denied_commit)
        return
    asked, denied = yield from split(services, request, READ_TOPIC, value["topics"], _NAME)
    kept: list[OldOffset] = []
    codes: list[int] = []
    for topic in asked:
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
    for topic in asked:
        partitions = [
            {
                "partition_index": entry["partition_index"],
                "error_code": next(answers) or stored,
            }
            for entry in topic["partitions"]
        ]
        topics.append({"name": topic["name"], "partitions": partitions})
        yield None
    for topic in denied:
        codes.append(TOPIC_AUTHORIZATION_FAILED)
        topics.append(_not_committed(topic, TOPIC_AUTHORIZATION_FAILED))
        yield None
    request.respond({"topics": topics}, max([*codes, stored]))


def _denied_commit(value: dict[str, Any]) -> dict[str, Any]:
    return {
        "topics": [_not_committed(topic, GROUP_AUTHORIZATION_FAILED) for topic in value["topics"]]
    }


def _not_committed(topic: dict[str, Any], error_code: int) -> dict[str, Any]:
    partitions = [
        {"partition_index": entry["partition_index"], "error_code": error_code}
        for entry in topic["partitions"]
    ]
    return {"name": topic["name"], "partitions": partitions}


def _refusal(services: Services, topic: str, partition: int, metadata: str | None) -> int:
    if not _exists(services, topic, partition):
        return UNKNOWN_TOPIC_OR_PARTITION
    if metadata is not None and len(metadata) > services.config["offset.metadata.max.bytes"]:
        return OFFSET_METADATA_TOO_LARGE
    return NONE


def fetch(services: Services, request: Request) -> Steps:
    value = request.value
    if not is_allowed(services, request, DESCRIBE_GROUP, value["group_id"]):
        refuse(request, GROUP_AUTHORIZATION_FAILED, _denied_fetch)
        return
    asked, denied = yield from split(services, request, DESCRIBE_TOPIC, value["topics"], _NAME)
    places: list[Place] = []
    for topic in asked:
        for partition in topic["partition_indexes"]:
            if _exists(services, topic["name"], partition):
                places.append((topic["name"], partition))
            yield None
    fetched = services.old_offsets.fetch(value["group_id"], places)
    yield fetched
    failed = fetched.cancelled() or fetched.exception() is not None
    offsets = {} if failed else fetched.result()
    absent = UNKNOWN_SERVER_ERROR if failed else UNKNOWN_TOPIC_OR_PARTITION
    topics = []
    for topic in asked:
        partitions = []
        for partition in topic["partition_indexes"]:
            offset = offsets.get((topic["name"], partition))
            partitions.append(_fetched(partition, offset, absent))
            yield None
        topics.append({"name": topic["name"], "partitions": partitions})
    for topic in denied:
        topics.append(_not_fetched(topic, TOPIC_AUTHORIZATION_FAILED))
        yield None
    request.respond({"topics": topics}, TOPIC_AUTHORIZATION_FAILED if denied else NONE)


def _denied_fetch(value: dict[str, Any]) -> dict[str, Any]:
    return {
        "topics": [_not_fetched(topic, GROUP_AUTHORIZATION_FAILED) for topic in value["topics"]]
    }


def _not_fetched(topic: dict[str, Any], error_code: int) -> dict[str, Any]:
    partitions = [_fetched(partition, None, error_code) for partition in topic["partition_indexes"]]
    return {"name": topic["name"], "partitions": partitions}


def _fetched(partition: int, offset: int | None, error_without: int) -> dict[str, Any]:
    return {
        "partition_index": partition,
        "committed_offset": -1 if offset is None else offset,
        "metadata": "",
        "error_code": error_without if offset is None else NONE,
    }


def _exists(services: Services, topic: str, partition: int) -> bool:
    found = services.registry.topic(topic)
    return found is not None and 0 <= partition < found.partitions
