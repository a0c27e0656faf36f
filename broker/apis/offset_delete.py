"""OffsetDelete (47): deletes committed offsets of topics that no member subscribes to.

Versions: v0, not flexible (KIP-496). A request with many partitions is handled in parts, and other
requests are served between the parts. If a part fails, the offsets of the earlier parts have been
deleted, and the client has to retry the whole request.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from broker.apis.shared.authorization import is_allowed, split
from broker.apis.shared.gather import Gather
from broker.apis.shared.losses import sender_of
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import Each, Rights, group
from coordinator.calls import OffsetDelete
from coordinator.outcome import OffsetDeleteReply
from protocol.encoded_array import EncodedArray
from protocol.errors import (
    GROUP_AUTHORIZATION_FAILED,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from protocol.messages.offset_delete import API
from security.acls.model import Operation, ResourceType

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_DELETE, _READ = group(Operation.DELETE), Each(Operation.READ, ResourceType.TOPIC)
PARTITIONS_PER_PIECE = 400
"""The maximum number of partitions in one part of a request. A part takes about 4 ms if all its
partitions have an offset."""

TopicPartitions = tuple[str, list[int]]


def _handle(services: Services, request: Request) -> Steps:
    value = request.value
    group_id = value["group_id"]
    if not is_allowed(services, request, _DELETE, group_id):
        _respond(request, GROUP_AUTHORIZATION_FAILED, [])
        return
    allowed, denied = yield from split(
        services, request, _READ, value["topics"], itemgetter("name")
    )
    asked: list[TopicPartitions] = []
    existing: list[TopicPartitions] = []
    for each in allowed:
        name, partitions = each["name"], [entry["partition_index"] for entry in each["partitions"]]
        asked.append((name, partitions))
        topic = services.registry.topic(name)
        there = [p for p in partitions if topic is not None and 0 <= p < topic.partitions]
        if there:
            existing.append((name, there))
        yield None
    codes: dict[tuple[str, int], int] = {}
    sender = sender_of(request)
    for piece in _pieces(existing):
        gather: Gather[OffsetDeleteReply] = Gather()
        services.groups.submit(group_id, OffsetDelete(gather.ticket(), group_id, piece, sender))
        yield from gather.rest()
        reply = gather.replies[0]
        if reply.error_code:
            _respond(request, reply.error_code, [])
            return
        for name, deleted in reply.topics:
            codes.update({(name, partition): code for partition, code in deleted})
        yield None
    yield from _answer(request, asked, codes, denied)


def _pieces(asked: Sequence[TopicPartitions]) -> Iterator[list[TopicPartitions]]:
    """Yields the topics and partitions in parts of at most PARTITIONS_PER_PIECE partitions.

    If the request has no partitions, yields one empty part, since the coordinator may have an error
    for the group.
    """
    piece: list[TopicPartitions] = []
    room = PARTITIONS_PER_PIECE
    for name, partitions in asked:
        for start in range(0, len(partitions), PARTITIONS_PER_PIECE):
            taken = partitions[start : start + PARTITIONS_PER_PIECE]
            if piece and len(taken) > room:
                yield piece
                piece, room = [], PARTITIONS_PER_PIECE
            piece.append((name, taken))
            room -= len(taken)
    if piece or not asked:
        yield piece


def _answer(
    request: Request,
    asked: list[TopicPartitions],
    codes: dict[tuple[str, int], int],
    denied: Sequence[dict[str, Any]],
) -> Steps:
    topics = request.array("topics")
    counted = 0
    for name, asked_partitions in asked:
        partitions = request.array("topics", "partitions")
        for partition in asked_partitions:
            code = codes.get((name, partition), UNKNOWN_TOPIC_OR_PARTITION)
            counted = counted or code
            partitions.append({"partition_index": partition, "error_code": code})
            yield None
        topics.append({"name": name, "partitions": partitions})
        yield None
    for topic in denied:
        counted = counted or TOPIC_AUTHORIZATION_FAILED
        partitions = request.array("topics", "partitions")
        for entry in topic["partitions"]:
            index = entry["partition_index"]
            partitions.append({"partition_index": index, "error_code": TOPIC_AUTHORIZATION_FAILED})
            yield None
        topics.append({"name": topic["name"], "partitions": partitions})
        yield None
    _respond(request, 0, topics, counted)


def _respond(
    request: Request,
    error_code: int,
    topics: EncodedArray | list[Any],
    counted: int | None = None,
) -> None:
    request.respond({"error_code": error_code, "throttle_time_ms": 0, "topics": topics}, counted)


SERVED = ServedApi(
    API,
    0,
    0,
    _handle,
    rights=Rights((_DELETE,), _READ),
)
