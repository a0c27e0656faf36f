"""DescribeTopicPartitions (75): topics in the order of their names, so many partitions at a time.

An empty list asks for all topics. What does not fit under the limit is told by a cursor, with which
the next request goes on (KIP-966).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.apis.metadata import described, missing
from broker.authorized import TOPIC_OPERATIONS
from broker.registry import BadTopicName, check_topic_name
from broker.request import Request, ServedApi
from protocol.errors import (
    INVALID_REQUEST,
    INVALID_TOPIC_EXCEPTION,
    NONE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from protocol.messages.describe_topic_partitions import API

if TYPE_CHECKING:
    from broker.broker import Broker

Cursor = dict[str, Any]


def _handle(broker: Broker, request: Request) -> None:
    value = request.value
    cursor = value["cursor"]
    asked = sorted({topic["name"] for topic in value["topics"]})
    names = asked or sorted(broker.registry.topics)
    if cursor is not None:
        absent = bool(asked) and cursor["topic_name"] not in asked
        if absent or cursor["partition_index"] < 0:
            refused = [missing(INVALID_REQUEST, name) for name in asked]
            request.respond({"topics": refused, "next_cursor": None}, INVALID_REQUEST)
            return
        names = [name for name in names if name >= cursor["topic_name"]]
    limit = broker.config["max.request.partition.size.limit"]
    room = max(1, min(limit, value["response_partition_limit"]))
    topics, next_cursor = _described(broker, names, cursor, room)
    worst = next((topic["error_code"] for topic in topics if topic["error_code"]), NONE)
    request.respond({"topics": topics, "next_cursor": next_cursor}, worst)


def _described(
    broker: Broker, names: list[str], cursor: Cursor | None, room: int
) -> tuple[list[dict[str, Any]], Cursor | None]:
    """The topics of which there is room for something, and where to go on."""
    topics: list[dict[str, Any]] = []
    for name in names:
        first = 0
        if cursor is not None and cursor["topic_name"] == name:
            first = cursor["partition_index"]
        if room <= 0:
            return topics, {"topic_name": name, "partition_index": 0}
        topic = _topic(broker, name, first, room)
        topics.append(topic)
        room -= len(topic["partitions"])
        known = broker.registry.topic(name)
        end = first + len(topic["partitions"])
        if known is not None and end < known.partitions:
            return topics, {"topic_name": name, "partition_index": end}
    return topics, None


def _topic(broker: Broker, name: str, first: int, room: int) -> dict[str, Any]:
    topic = broker.registry.topic(name)
    if topic is None:
        try:
            check_topic_name(name)
        except BadTopicName:
            return missing(INVALID_TOPIC_EXCEPTION, name)
        return missing(UNKNOWN_TOPIC_OR_PARTITION, name)
    whole = described(broker, topic)
    whole["partitions"] = whole["partitions"][first : first + room]
    for partition in whole["partitions"]:
        partition["eligible_leader_replicas"] = partition["last_known_elr"] = []
    return {**whole, "topic_authorized_operations": TOPIC_OPERATIONS}


SERVED = ServedApi(API, 0, 0, _handle)
