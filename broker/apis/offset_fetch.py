"""OffsetFetch (9): what a group committed.

v0 reads ZooKeeper's consumer paths (`broker/old_offsets.py`); v1 the log's offsets; v2 null topics
for all, and an error for the group; v3 throttle time; v5 leader epoch; v6 flexible; v7
require_stable (KIP-447); v8 many groups (KIP-709); v9 member id and epoch, which a classic group
does not look at; v10 topic ids. With require_stable or without, an answer waits for every commit
before it (law 2), so that none is ever unstable while there are no transactions.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from broker import old_offsets
from broker.gather import Gather
from broker.request import Request, ServedApi
from coordinator.calls import OffsetFetch
from coordinator.outcome import FetchReply
from protocol.errors import UNKNOWN_TOPIC_ID
from protocol.generated.offset_fetch import DECODE_REQUEST, ENCODE_RESPONSE
from protocol.messages.offset_fetch import API

if TYPE_CHECKING:
    from broker.broker import Broker


def _handle(broker: Broker, request: Request) -> None:
    version = request.api_version
    if version == 0:
        old_offsets.fetch(broker, request)
        return
    groups, _require_stable = DECODE_REQUEST[version](request.buffer, request.position)
    if version >= 10:
        _by_topic_id(broker, request, groups)
        return
    if len(groups) == 1:
        group = groups[0]
        request.context = group
        request.encode = _answer
        broker.runtime.submit(group[0], OffsetFetch(request, group[0], group[3]))
        return
    answer = partial(_answer_many, request, groups)
    gather: Gather[FetchReply] = Gather(request, len(groups), answer)
    for index, group in enumerate(groups):
        call = OffsetFetch(gather.ticket(index), group[0], group[3])
        broker.runtime.submit(group[0], call)


def _answer(request: Request, reply: FetchReply) -> None:
    group = request.context
    error_code = reply.error_code
    if error_code and request.api_version < 2:
        # No place for a group's error: every partition says it.
        topics = [_no_offsets(topic, partitions, error_code) for topic, partitions in group[3]]
    else:
        topics = [(*topic, 0) for topic in reply.topics]
    frame = ENCODE_RESPONSE[request.api_version](
        request.correlation_id, 0, [(group[0], error_code, topics)]
    )
    request.complete(frame, error_code)


def _answer_many(request: Request, groups: list[Any], replies: list[FetchReply]) -> None:
    answered = [
        (group[0], reply.error_code, [(*topic, 0) for topic in reply.topics])
        for group, reply in zip(groups, replies, strict=True)
    ]
    frame = ENCODE_RESPONSE[request.api_version](request.correlation_id, 0, answered)
    request.complete(frame, max((reply.error_code for reply in replies), default=0))


def _no_offsets(topic: Any, partitions: Any, error_code: int) -> tuple[Any, ...]:
    nothing = [-1] * len(partitions)
    return (topic, partitions, nothing, nothing, None, error_code)


def _by_topic_id(broker: Broker, request: Request, groups: list[Any]) -> None:
    """v10: ids to names and back. An unknown id is an error of its partitions; a topic without an
    id any more, whose offsets are still kept, is left out of "all topics", as in Kafka.
    """
    registry = broker.registry
    calls = []
    unknown: list[list[Any]] = []
    for group_id, _, _, topics in groups:
        named = missing = None
        if topics is not None:
            pairs = [(registry.topic_by_id(id_), id_, partitions) for id_, partitions in topics]
            named = [(topic.name, partitions) for topic, _, partitions in pairs if topic]
            missing = [
                _no_offsets(id_, partitions, UNKNOWN_TOPIC_ID)
                for topic, id_, partitions in pairs
                if topic is None
            ]
        calls.append((group_id, named))
        unknown.append(missing or [])

    def answer(replies: list[FetchReply]) -> None:
        answered = []
        for (group_id, _), missing, reply in zip(calls, unknown, replies, strict=True):
            known = [
                (known_topic.topic_id, *topic[1:], 0)
                for topic in reply.topics
                if (known_topic := registry.topic(topic[0])) is not None
            ]
            topics = [] if reply.error_code else known + missing
            answered.append((group_id, reply.error_code, topics))
        frame = ENCODE_RESPONSE[request.api_version](request.correlation_id, 0, answered)
        request.complete(frame, max((reply.error_code for reply in replies), default=0))

    gather: Gather[FetchReply] = Gather(request, len(calls), answer)
    for index, (group_id, named) in enumerate(calls):
        broker.runtime.submit(group_id, OffsetFetch(gather.ticket(index), group_id, named))


SERVED = ServedApi(API, 0, 10, _handle)
