"""OffsetDelete (47): an administrator drops committed offsets of topics nobody subscribes to.

v0, not flexible (KIP-496).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.request import Request, ServedApi
from coordinator.calls import OffsetDelete
from coordinator.outcome import OffsetDeleteReply
from protocol.errors import INVALID_GROUP_ID, UNKNOWN_TOPIC_OR_PARTITION
from protocol.messages.offset_delete import API

if TYPE_CHECKING:
    from broker.broker import Broker


def _handle(broker: Broker, request: Request) -> None:
    value = request.value
    group_id = value["group_id"]
    registry = broker.registry
    asked = [
        (topic["name"], [partition["partition_index"] for partition in topic["partitions"]])
        for topic in value["topics"]
    ]
    existing = [
        (name, there)
        for name, partitions in asked
        if (topic := registry.topic(name)) is not None
        and (there := [p for p in partitions if 0 <= p < topic.partitions])
    ]

    request.context = asked
    request.encode = _answer
    if not group_id:
        request(OffsetDeleteReply(INVALID_GROUP_ID))
    elif not existing:
        request(OffsetDeleteReply(0))
    else:
        broker.runtime.submit(group_id, OffsetDelete(request, group_id, existing))


def _answer(request: Request, reply: OffsetDeleteReply) -> None:
    if reply.error_code:
        _respond(request, reply.error_code, [])
        return
    codes = {
        (name, partition): code
        for name, partitions in reply.topics
        for partition, code in partitions
    }
    topics = [
        {
            "name": name,
            "partitions": [
                {
                    "partition_index": partition,
                    "error_code": codes.get((name, partition), UNKNOWN_TOPIC_OR_PARTITION),
                }
                for partition in partitions
            ],
        }
        for name, partitions in request.context
    ]
    inside = (entry["error_code"] for topic in topics for entry in topic["partitions"])
    _respond(request, 0, topics, next(filter(None, inside), 0))


def _respond(
    request: Request, error_code: int, topics: list[Any], counted: int | None = None
) -> None:
    request.respond({"error_code": error_code, "throttle_time_ms": 0, "topics": topics}, counted)


SERVED = ServedApi(API, 0, 0, _handle)
