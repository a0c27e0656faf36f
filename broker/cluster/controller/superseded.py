"""Removes obsolete parts of requests from the queue of a controller channel.

While a registered broker does not answer, the queue of its channel grows with each change. Kafka
keeps the whole queue. Muster removes a partition from a LeaderAndIsr, UpdateMetadata or StopReplica
request if a later request of the same type contains the same partition, and removes requests that
have no partitions left. The remaining requests keep their order, so that a broker learns about a
live broker before it has to follow this broker.

| exception | reason |
|---|---|
| is_new of a LeaderAndIsr moves to the later request | the broker has not created the replica yet |
| an UpdateMetadata about a deletion stays | a later request may create a topic of the same name |
| the first UpdateMetadata of a partition stays | partitions of a new topic appear together |
| a StopReplica that deletes a replica stays | the later StopReplica may not delete the replica |
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from controller.requests import (
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    LeaderAndIsrTopic,
    Send,
    ShownPartition,
    ShownTopic,
    StoppedPartition,
    StoppedTopic,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from controller.values import LEADER_OF_DELETED, TopicPartition

Key = tuple[str, int, bool]
"""A topic, a partition index, and True if the request deletes the partition."""
Said = TypeVar("Said", LeaderAndIsrPartition, ShownPartition, StoppedPartition)


def load(request: Send) -> int:
    """Returns the size of a request: 1 plus its number of partitions."""
    return 1 + sum(len(topic.partitions) for topic in request.topics)


def without_superseded(requests: Sequence[Send]) -> Generator[int, None, list[Send]]:
    """Returns the requests in their order, without the parts that later requests repeat.

    The generator goes through the requests twice. It yields the size of each request after it has
    handled the request, so that the caller can run it in slices.
    """
    kept: list[Send] = []
    sent, stopped = set[Key](), set[Key]()
    first = yield from _said_first(requests)
    shown = _Shown(first)
    for number in reversed(range(len(requests))):
        request = requests[number]
        left: Send | None
        match request:
            case LeaderAndIsrRequest():
                left = _leader_and_isr_left(request, sent, first.new)
            case UpdateMetadataRequest():
                may_merge = bool(kept) and isinstance(kept[-1], UpdateMetadataRequest)
                left = shown.left(number, request, may_merge)
            case StopReplicaRequest():
                left = _stopped(request, stopped)
        if left is not None:
            kept.append(left)
        yield load(request)
    kept.reverse()
    return kept


@dataclass(slots=True)
class _First:
    """Partitions that must not be removed from an earlier request in a queue, although a later
    request has them too: the broker must learn of them from the earlier request."""

    new: set[TopicPartition] = field(default_factory=set)
    """The partitions that a queued LeaderAndIsr request marks as new (field is_new)."""
    shown: dict[TopicPartition, int] = field(default_factory=dict)
    """For each partition, the index of the queued UpdateMetadata from which the broker first learns
    of the partition. If the queue also deletes the partition, only requests after the deletion
    count."""

    def is_shown_in(self, number: int, place: TopicPartition) -> bool:
        return self.shown.get(place) == number


def _said_first(requests: Sequence[Send]) -> Generator[int, None, _First]:
    first = _First()
    for number, request in enumerate(requests):
        match request:
            case LeaderAndIsrRequest():
                first.new.update(
                    (topic.name, each.partition)
                    for topic in request.topics
                    for each in topic.partitions
                    if each.is_new
                )
            case UpdateMetadataRequest():
                for topic in request.topics:
                    for shown in topic.partitions:
                        place = (topic.name, shown.partition)
                        if _is_deleted(shown):
                            first.shown.pop(place, None)
                        else:
                            first.shown.setdefault(place, number)
        yield load(request)
    return first


def _leader_and_isr_left(
    request: LeaderAndIsrRequest, seen: set[Key], new: set[TopicPartition]
) -> LeaderAndIsrRequest | None:
    topics = []
    for topic in request.topics:
        partitions = [
            each._replace(is_new=each.is_new or (topic.name, each.partition) in new)
            for each in _needed(topic.name, topic.partitions, seen, _never, _never)
        ]
        if partitions:
            topics.append(LeaderAndIsrTopic(topic.name, topic.topic_id, partitions))
    return request._replace(topics=topics) if topics else None


def _needed(
    topic: str,
    partitions: Iterable[Said],
    seen: set[Key],
    ends: Callable[[Said], bool],
    is_first: Callable[[TopicPartition], bool],
) -> Iterator[Said]:
    """Yields the partitions that must stay in a queued request, given the later requests. A
    partition that a later request deletes is removed.

    A partition that a later request names without deleting it is removed too, unless this request
    deletes it, or ``is_first`` returns True for it.
    """
    for each in partitions:
        place: TopicPartition = (topic, each.partition)
        if (*place, True) in seen:
            continue
        key = (*place, ends(each))
        if key not in seen or is_first(place):
            seen.add(key)
            yield each


class _Shown:
    """Merges the UpdateMetadata requests of a queue. The caller passes the requests in reverse
    order, the last request of the queue first."""

    def __init__(self, first: _First) -> None:
        self._first = first
        self._seen: set[Key] = set()
        self._topics: list[ShownTopic] = []
        """The topics of the UpdateMetadata request that `left` returned last. When `left` merges an
        older queued request into that request, it adds the topics of the older request here."""
        self._by_name: dict[str, ShownTopic] = {}
        self._places: set[TopicPartition] = set()
        """All partitions of the topics in `_topics`."""

    def left(
        self, number: int, request: UpdateMetadataRequest, may_merge: bool
    ) -> UpdateMetadataRequest | None:
        """Returns the part of an UpdateMetadata request that must stay in the queue. Returns None
        if this part was merged into the next request of the queue."""
        is_first = partial(self._first.is_shown_in, number)
        topics = []
        for each in request.topics:
            needed = _needed(each.name, each.partitions, self._seen, _is_deleted, is_first)
            if partitions := [*needed]:
                topics.append(each._replace(partitions=partitions))
        merges = may_merge and all(_fits(each, self._by_name.get(each.name)) for each in topics)
        if not merges:
            self._topics, self._by_name, self._places = [], {}, set()
        for topic in topics:
            self._take(topic)
        return None if merges else request._replace(topics=self._topics)

    def _take(self, topic: ShownTopic) -> None:
        """Adds the partitions of a topic to `_topics`, except those that it already contains."""
        there = self._by_name.get(topic.name)
        if there is None:
            there = self._by_name[topic.name] = topic._replace(partitions=[])
            self._topics.append(there)
        assert isinstance(there.partitions, list)
        for each in topic.partitions:
            place = (topic.name, each.partition)
            if place not in self._places:
                self._places.add(place)
                there.partitions.append(each)


def _fits(topic: ShownTopic, later: ShownTopic | None) -> bool:
    """Returns True if ``topic``, an entry of an earlier request, can be merged into ``later``, the
    entry of the same topic in a later request."""
    if later is None:
        return True
    both = (*topic.partitions, *later.partitions[:1])
    deleted = any(map(_is_deleted, both))
    return topic.topic_id == later.topic_id and not deleted


def _stopped(request: StopReplicaRequest, seen: set[Key]) -> StopReplicaRequest | None:
    topics = [
        StoppedTopic(topic.name, partitions)
        for topic in request.topics
        if (partitions := [*_needed(topic.name, topic.partitions, seen, _deletes, _never)])
    ]
    return request._replace(topics=topics) if topics else None


def _never(_: object) -> bool:
    return False


def _is_deleted(shown: ShownPartition) -> bool:
    return shown.leader == LEADER_OF_DELETED


def _deletes(stopped: StoppedPartition) -> bool:
    return stopped.delete
