"""Writes the znodes of topics, at most one write per topic at a time. A write contains all
assignments that were requested before the write.

A write keeps the topic id, the adding and removing replicas, and unknown keys of the znode. Kafka
before 2.4 and its tools drop this data when they add partitions (KAFKA-14190). The controller
writes the dropped data again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from controller.facts import Result, WriteResult
from controller.outcome import ReadTopic, RewriteTopic
from controller.partition import Partition, Topic, Wanted
from controller.values import Assignment, TopicFact
from controller.work import Work


def want(
    work: Work, partition: Partition, assignment: Assignment, written: Callable[[], None]
) -> None:
    """Requests a write of a partition's new assignment to the topic's znode. ``written`` is called
    after the write."""
    partition.topic.wanted[partition.index] = Wanted(assignment, written)
    rewrite(work, partition.topic)


def rewrite(work: Work, topic: Topic) -> None:
    """Writes the topic's znode if a change is requested, no write of the znode is in flight, and
    the znode need not be read first."""
    if topic.flight or topic.reading or not work.ready:
        return
    if work.cluster.topics.get(topic.name) is not topic or topic.is_being_deleted:
        return
    if not (topic.wanted or topic.restore or topic.waits_for_id):
        return
    wanted = dict(topic.wanted)
    partitions = {
        index: wanted[index].assignment if index in wanted else partition.assignment
        for index, partition in topic.partitions.items()
    }
    node = topic.node
    topic.restore = False
    if node.topic_id == topic.topic_id and node.partitions == partitions:
        # An earlier write succeeded, but its result was lost.
        _done(topic, wanted)
        return
    written = TopicFact(
        topic.name, topic.topic_id, partitions, node.znode_version, node.created, node.unknown
    )
    topic.flight = True
    write = RewriteTopic(
        work.number(), topic.name, topic.topic_id, partitions, node.znode_version, node.unknown
    )
    work.write(write, partial(_landed, work, topic, written, wanted))


def _landed(
    work: Work,
    topic: Topic,
    written: TopicFact,
    wanted: dict[int, Wanted],
    result: WriteResult,
) -> None:
    topic.flight = False
    if work.cluster.topics.get(topic.name) is not topic:
        return
    if result.result is not Result.OK:
        topic.restore = topic.reading = True
        if result.result is Result.FAILED:
            work.retry(partial(_read_again, work, topic))
        else:
            reread(work, topic)
        return
    learn(work, topic, written._replace(znode_version=result.version))
    _done(topic, wanted)
    if topic.seen_version > result.version:
        reread(work, topic)
    else:
        rewrite(work, topic)


def _done(topic: Topic, wanted: dict[int, Wanted]) -> None:
    for index, each in wanted.items():
        if topic.wanted.get(index) is each:
            del topic.wanted[index]
            each.written()


def learn(work: Work, topic: Topic, node: TopicFact) -> None:
    """Adopts new content of the topic's znode. If the znode has a topic id for the first time,
    brokers may now get the topic."""
    waited = topic.waits_for_id
    topic.node = node
    if waited and not topic.waits_for_id:
        for partition in topic.partitions.values():
            work.mark(partition)
    work.look_at_queued = True


def _read_again(work: Work, topic: Topic) -> None:
    """Reads the topic's znode again after a failed read, unless it has been read since then."""
    if topic.reading:
        reread(work, topic)


def reread(work: Work, topic: Topic) -> None:
    """Requests a read of the topic's znode before the next write, because the version of the znode
    has changed or is unknown."""
    topic.reading = True
    work.read(ReadTopic(topic.name))
