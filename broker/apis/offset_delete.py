"""OffsetDelete (47): an administrator drops committed offsets of topics nobody subscribes to.

v0, not flexible (KIP-496). A request of many partitions is done in pieces, others having their turn
between them; when one fails, those before it are done, and the client asks for all again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from broker.request import Request, ServedApi
from coordinator.calls import OffsetDelete
from coordinator.outcome import OffsetDeleteReply
from protocol.errors import INVALID_GROUP_ID, UNKNOWN_TOPIC_OR_PARTITION
from protocol.messages.offset_delete import API

if TYPE_CHECKING:
    from broker.broker import Broker

PARTITIONS_PER_PIECE = 400
"""Some 4 ms, if all of them have an offset."""

TopicPartitions = tuple[str, list[int]]


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
    elif sum(len(partitions) for _, partitions in existing) <= PARTITIONS_PER_PIECE:
        broker.runtime.submit(group_id, OffsetDelete(request, group_id, existing))
    else:
        broker.answer_later(request, _delete_in_pieces(broker, request, group_id, existing))


async def _delete_in_pieces(
    broker: Broker, request: Request, group_id: str, asked: list[TopicPartitions]
) -> None:
    slices = broker.slicer.work("OffsetDelete")
    answered: list[tuple[str, Any]] = []
    for piece in _pieces(asked):
        await slices.pause()
        done: asyncio.Future[OffsetDeleteReply] = asyncio.get_running_loop().create_future()
        broker.runtime.submit(group_id, OffsetDelete(done.set_result, group_id, piece))
        reply = await done
        if reply.error_code:
            request(reply)
            return
        answered += reply.topics
    await slices.pause()
    request(OffsetDeleteReply(0, answered))


def _pieces(asked: Iterable[TopicPartitions]) -> Iterator[list[TopicPartitions]]:
    """The same topics and partitions, so many partitions at a time."""
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
    if piece:
        yield piece


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
