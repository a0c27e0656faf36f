"""OffsetCommit (8): a group's offsets, acknowledged when they are stable in the log.

v0 offsets by ZooKeeper's consumer paths (`broker/apis/old_offsets.py`); v1 offsets in the log, with
generation and member and a commit timestamp for each partition; v2 retention time instead; v3
throttle time; v5 no retention time; v6 committed leader epoch; v7 group instance id; v8 flexible;
v9 GROUP_ID_NOT_FOUND in place of ILLEGAL_GENERATION (KIP-848); v10 topic ids in place of names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from broker.apis import old_offsets
from broker.net.request import Request, ServedApi, Steps
from coordinator.calls import OffsetCommit, TopicOffsets
from coordinator.outcome import CommitReply
from protocol.errors import (
    GROUP_ID_NOT_FOUND,
    NONE,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from protocol.generated.offset_commit import DECODE_REQUEST, ENCODE_RESPONSE
from protocol.messages.offset_commit import API

if TYPE_CHECKING:
    from broker.apis.services import Services

Errors = int | Sequence[int]


class _Partly:
    """A commit of which some topics or partitions do not exist: what the reply is woven from."""

    __slots__ = ("errors", "kept", "topics")

    def __init__(self, topics: list[Any]) -> None:
        self.topics = topics
        self.errors: list[Errors] = []
        """By topic: its error, or its column of errors with 0 for what was committed."""
        self.kept: list[int] = []
        """The topics handed to the coordinator, as indexes into ``topics``."""


def _handle(services: Services, request: Request) -> Steps | None:
    version = request.api_version
    if version == 0:
        return old_offsets.commit(services, request)
    group_id, generation_id, member_id, group_instance_id, retention_time_ms, topics = (
        request.context or DECODE_REQUEST[version](request.buffer, request.position)
    )
    known = services.registry.topics
    whole = version < 10 and bool(topics)
    for topic in topics if whole else ():
        found = known.get(topic[0])
        partitions = topic[1]
        if (
            found is None
            or not partitions
            or max(partitions) >= found.partitions
            or min(partitions) < 0
        ):
            whole = False
            break
    if whole:
        request.context = topics
        request.encode = _answer
        offsets = [TopicOffsets._make(topic) for topic in topics]
    else:
        partly = request.context = _Partly(topics)
        request.encode = _answer_partly
        offsets = _existing(services, partly, by_id=version >= 10)
        if not offsets:
            # As in Kafka, a commit of nothing is not looked at further.
            request.take(CommitReply(()))
            return None
    if version >= 9 and generation_id >= 0 and _is_unknown(services, group_id):
        request.take(CommitReply(GROUP_ID_NOT_FOUND))
        return None
    services.groups.submit(
        group_id,
        OffsetCommit(
            request,
            group_id,
            generation_id,
            member_id,
            group_instance_id,
            retention_time_ms,
            offsets,
            request.client_id,
            request.connection.client_host,
        ),
    )
    return None


def _is_unknown(services: Services, group_id: str) -> bool:
    view = services.groups.view_of(group_id)
    return view is not None and group_id not in view.groups


def _existing(services: Services, partly: _Partly, by_id: bool) -> list[TopicOffsets]:
    """The part of the commit that names what exists; the errors of the rest go to ``partly``."""
    registry = services.registry
    kept: list[TopicOffsets] = []
    for index, (key, partitions, offsets, epochs, metadata, timestamps) in enumerate(partly.topics):
        topic = registry.topic_by_id(key) if by_id else registry.topic(key)
        if topic is None:
            partly.errors.append(UNKNOWN_TOPIC_ID if by_id else UNKNOWN_TOPIC_OR_PARTITION)
            continue
        count = topic.partitions
        there = [0 <= partition < count for partition in partitions]
        if not any(there):
            partly.errors.append(UNKNOWN_TOPIC_OR_PARTITION)
            continue
        partly.errors.append(
            NONE if all(there) else [NONE if ok else UNKNOWN_TOPIC_OR_PARTITION for ok in there]
        )
        partly.kept.append(index)
        columns: list[Any] = [
            column if column is None else [v for v, ok in zip(column, there, strict=True) if ok]
            for column in (partitions, offsets, epochs, metadata, timestamps)
        ]
        kept.append(TopicOffsets(topic.name, *columns))
    return kept


def _answer(request: Request, reply: CommitReply) -> None:
    errors = reply.errors
    topics: list[Any] = request.context
    answered: list[tuple[Any, Any, Errors]]
    if isinstance(errors, int):
        answered = [(topic[0], topic[1], errors) for topic in topics]
        error_code = errors
    else:
        answered = [
            (topic[0], topic[1], error) for topic, error in zip(topics, errors, strict=True)
        ]
        error_code = _worst(errors)
    request.complete(
        ENCODE_RESPONSE[request.api_version](request.correlation_id, 0, answered), error_code
    )


def _answer_partly(request: Request, reply: CommitReply) -> None:
    partly: _Partly = request.context
    for position, index in enumerate(partly.kept):
        error = reply.errors if isinstance(reply.errors, int) else reply.errors[position]
        before = partly.errors[index]
        if isinstance(before, int):
            partly.errors[index] = error
        else:
            given = iter([error] * before.count(NONE) if isinstance(error, int) else error)
            partly.errors[index] = [code or next(given) for code in before]
    answered = [
        (topic[0], topic[1], error)
        for topic, error in zip(partly.topics, partly.errors, strict=True)
    ]
    request.complete(
        ENCODE_RESPONSE[request.api_version](request.correlation_id, 0, answered),
        _worst(partly.errors),
    )


def _worst(errors: Sequence[Errors]) -> int:
    """One code to count the request under."""
    return max((e if isinstance(e, int) else max(e, default=0) for e in errors), default=0)


SERVED = ServedApi(
    API,
    0,
    10,
    _handle,
    elements_max=10_000,
    decoders={version: DECODE_REQUEST[version] for version in range(1, 11)},
)
