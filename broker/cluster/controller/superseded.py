"""A channel's queue without what a later request in it says anew.

A broker that is registered and does not answer is told nothing, and what it has to be told grows
with each change. Kafka keeps all of it. Here an older LeaderAndIsr, UpdateMetadata or StopReplica
loses the partitions that a later one of its kind names too, and goes when it has none left. The
order of what is left stays, so that a broker is known to live before somebody is to follow it.

| what | why it is kept |
|---|---|
| is_new of a LeaderAndIsr | the replica was never told of: the later request gets it |
| an UpdateMetadata that shows a deletion | a topic of the same name may come after it |
| a StopReplica that deletes | a later one that does not delete is no substitute |
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TypeVar

from controller.requests import (
    LeaderAndIsrRequest,
    Send,
    ShownPartition,
    ShownTopic,
    StoppedPartition,
    StoppedTopic,
    StopReplicaRequest,
    ToldPartition,
    ToldTopic,
    UpdateMetadataRequest,
)
from controller.values import LEADER_OF_DELETED, TopicPartition

Key = tuple[str, int, bool]
"""Topic, partition, and whether what is said of it ends it."""
Said = TypeVar("Said", ToldPartition, ShownPartition, StoppedPartition)


def load(request: Send) -> int:
    """How much a request is: its partitions, and itself."""
    return 1 + sum(len(topic.partitions) for topic in request.topics)


def without_superseded(requests: Sequence[Send]) -> Generator[int, None, list[Send]]:
    """Those requests, in their order, without what later ones say anew.

    Yields after each how much it was.
    """
    kept: list[Send] = []
    seen: tuple[set[Key], set[Key], set[Key]] = (set(), set(), set())
    new_before: set[TopicPartition] = _new(requests)
    for request in reversed(requests):
        left: Send | None
        match request:
            case LeaderAndIsrRequest():
                left = _told(request, seen[0], new_before)
            case UpdateMetadataRequest():
                left = _shown(request, seen[1], kept[-1] if kept else None)
            case StopReplicaRequest():
                left = _stopped(request, seen[2])
        if left is not None:
            kept.append(left)
        yield load(request)
    kept.reverse()
    return kept


def _new(requests: Iterable[Send]) -> set[TopicPartition]:
    """The replicas that some request tells of for the first time."""
    return {
        (topic.name, each.partition)
        for request in requests
        if isinstance(request, LeaderAndIsrRequest)
        for topic in request.topics
        for each in topic.partitions
        if each.is_new
    }


def _told(
    request: LeaderAndIsrRequest, seen: set[Key], new: set[TopicPartition]
) -> LeaderAndIsrRequest | None:
    topics = []
    for topic in request.topics:
        partitions = [
            each._replace(is_new=each.is_new or (topic.name, each.partition) in new)
            for each in _first_seen(topic.name, topic.partitions, seen, _never)
        ]
        if partitions:
            topics.append(ToldTopic(topic.name, topic.topic_id, partitions))
    return request._replace(topics=topics) if topics else None


def _first_seen(
    topic: str, partitions: Iterable[Said], seen: set[Key], ends: Callable[[Said], bool]
) -> Iterator[Said]:
    """What no later request says; what ends a partition stands for all that came before it."""
    for each in partitions:
        key = (topic, each.partition, ends(each))
        if key not in seen and (topic, each.partition, True) not in seen:
            seen.add(key)
            yield each


def _shown(
    request: UpdateMetadataRequest, seen: set[Key], later: Send | None
) -> UpdateMetadataRequest | None:
    """None: the request after it is one of its kind, and says the rest too."""
    topics = [
        ShownTopic(topic.name, topic.topic_id, partitions)
        for topic in request.topics
        if (partitions := [*_first_seen(topic.name, topic.partitions, seen, _is_deleted)])
    ]
    if not isinstance(later, UpdateMetadataRequest):
        return request._replace(topics=topics)
    there = {each.name: each for each in later.topics}
    if not all(_fits(each, there.get(each.name)) for each in topics):
        return request._replace(topics=topics)
    assert isinstance(later.topics, list)
    for each in topics:
        if each.name in there:
            shown_later = there[each.name].partitions
            assert isinstance(shown_later, list)
            shown_later.extend(each.partitions)
        else:
            later.topics.append(each)
    return None


def _fits(topic: ShownTopic, later: ShownTopic | None) -> bool:
    """Whether what is shown of a topic can be shown together with what is shown of it later."""
    if later is None:
        return True
    both = (*topic.partitions, *later.partitions[:1])
    deleted = any(map(_is_deleted, both))
    return topic.topic_id == later.topic_id and not deleted


def _stopped(request: StopReplicaRequest, seen: set[Key]) -> StopReplicaRequest | None:
    topics = [
        StoppedTopic(topic.name, partitions)
        for topic in request.topics
        if (partitions := [*_first_seen(topic.name, topic.partitions, seen, _deletes)])
    ]
    return request._replace(topics=topics) if topics else None


def _never(_: ToldPartition) -> bool:
    return False


def _is_deleted(shown: ShownPartition) -> bool:
    return shown.leader == LEADER_OF_DELETED


def _deletes(stopped: StoppedPartition) -> bool:
    return stopped.delete
