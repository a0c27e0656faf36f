"""Splits a commit into existing and unknown partitions, and merges the coordinator's reply into the
response.

OffsetCommit and TxnOffsetCommit use this module. An unknown topic or partition gets an error in the
response; the other partitions are committed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from broker.net.request import Request
from broker.net.required_acls import Each
from broker.topics.registry import Registry
from coordinator.calls import TopicOffsets
from coordinator.outcome import CommitReply
from protocol.errors import (
    NONE,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from security.acls.model import Operation, ResourceType

READ_TOPIC = Each(Operation.READ, ResourceType.TOPIC)
"""The ACL that a commit needs on each of its topics."""
Errors = int | Sequence[int]
"""One error code for all partitions of a topic, or one error code for each partition."""
Encode = Callable[[int, int, Sequence[tuple[Any, Sequence[int], Errors]]], bytes]
"""A function that encodes a response. Its arguments are the correlation id, the throttle time, and
each topic with its partitions and errors."""


class _Partly:
    """An OffsetCommit or TxnOffsetCommit in which some topics or partitions are unknown or denied.
    Their error codes are merged into the coordinator's reply."""

    __slots__ = ("errors", "kept", "topics")

    def __init__(self, topics: list[Any]) -> None:
        self.topics = topics
        self.errors: list[Errors] = []
        """The error codes of each topic's partitions; 0 for a partition that was passed to the
        coordinator."""
        self.kept: list[int] = []
        """The indexes in ``topics`` of the topics that were passed to the coordinator."""


class CommitTopics:
    """Splits the topics of a commit request into existing and unknown topics, and sends the
    response. One object handles OffsetCommit requests, and another object handles TxnOffsetCommit
    requests."""

    def __init__(self, encode: Mapping[int, Encode]) -> None:
        self._encode = encode
        """The encoders of responses, by version."""

    def take(
        self,
        registry: Registry,
        request: Request,
        topics: Sequence[Any],
        *,
        by_id: bool = False,
        denied: Sequence[Any] = (),
    ) -> list[TopicOffsets]:
        """Returns the partitions of ``topics`` that exist, and prepares ``request`` so that a
        CommitReply can answer it.

        The response lists ``denied`` topics last, with TOPIC_AUTHORIZATION_FAILED.
        """
        known = registry.topics
        whole = not by_id and bool(topics) and not denied
        for topic in topics if whole else ():
            found = known.get(topic[0])
            partitions = topic[1]
            if found is None or not partitions:
                whole = False
                break
            low = high = partitions[0]
            if len(partitions) > 1:
                low, high = min(partitions), max(partitions)
            if low < 0 or high >= found.partitions:
                whole = False
                break
        if whole:
            request.context = topics
            request.encode = self._answer
            # `_make` would cost a call for each topic.
            return [tuple.__new__(TopicOffsets, topic) for topic in topics]
        partly = request.context = _Partly([*topics, *denied])
        request.encode = self._answer_partly
        kept = _existing(registry, partly, topics, by_id)
        partly.errors += [TOPIC_AUTHORIZATION_FAILED] * len(denied)
        return kept

    def refuse(self, request: Request, topics: Sequence[Any], error_code: int) -> None:
        request.context = topics
        self._answer(request, CommitReply(error_code))

    def _answer(self, request: Request, reply: CommitReply) -> None:
        errors = reply.errors
        topics: Sequence[Any] = request.context
        answered: list[tuple[Any, Any, Errors]]
        if isinstance(errors, int):
            answered = [(topic[0], topic[1], errors) for topic in topics]
            error_code = errors
        else:
            answered = [
                (topic[0], topic[1], error) for topic, error in zip(topics, errors, strict=True)
            ]
            error_code = max(
                [each if isinstance(each, int) else max(each, default=0) for each in errors],
                default=0,
            )
        encode = self._encode[request.api_version]
        request.complete(encode(request.correlation_id, 0, answered), error_code)

    def _answer_partly(self, request: Request, reply: CommitReply) -> None:
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
        encode = self._encode[request.api_version]
        request.complete(encode(request.correlation_id, 0, answered), _worst(partly.errors))


def _existing(
    registry: Registry, partly: _Partly, topics: Sequence[Any], by_id: bool
) -> list[TopicOffsets]:
    """Returns the existing partitions of a commit. Adds the errors of all other partitions to
    ``partly``."""
    kept: list[TopicOffsets] = []
    for index, (key, partitions, offsets, epochs, metadata, timestamps) in enumerate(topics):
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


def _worst(errors: Sequence[Errors]) -> int:
    """Returns the highest of the error codes. The metrics count the request under this code."""
    return max((e if isinstance(e, int) else max(e, default=0) for e in errors), default=0)
