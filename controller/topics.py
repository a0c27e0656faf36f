"""Creation, growth and deletion of topics. The controller observes these changes by ZooKeeper
watches."""

from __future__ import annotations

from collections.abc import Iterable

from controller import deletions, topic_nodes
from controller.events import OtherController, TopicAdded
from controller.forgetting import forget
from controller.outcome import ReadTopic
from controller.partition import Deletion, Moving, Partition, Topic
from controller.settling import adopt, state_read
from controller.states import PartitionState
from controller.values import Assignment, LeaderAndIsr, TopicFact, TopicPartition
from controller.work import Work
from protocol.znodes.admin import delete_path


def topics_seen(work: Work, names: Iterable[str]) -> None:
    """Handles the current list of topics in ZooKeeper: requests reads of new topics, and removes
    topics whose znodes another process has deleted.

    Before the controller is ready, only stores the list. The host reads all topics at this time,
    and `begin` handles the differences.
    """
    there = set(names)
    if not work.ready:
        work.names_seen = there
        return
    known = work.cluster.topics
    for topic in [each for each in known.values() if each.name not in there]:
        topic_gone(work, topic.name)
    for name in sorted(there - known.keys()):
        work.read(ReadTopic(name))


def topic_gone(work: Work, name: str) -> None:
    topic = work.cluster.topics.get(name)
    if topic is not None and topic.deletion is not Deletion.ERASING:
        forget(work, topic)
    if topic is None and name in work.unknown_deletions:
        work.unknown_deletions.discard(name)
        work.delete_nodes([delete_path(name)])


def topic_seen(work: Work, fact: TopicFact, spare_id: bytes) -> None:
    """Handles the content of a topic's znode, which was read for the first time or has changed."""
    topic = work.cluster.topics.get(fact.name)
    if topic is not None and topic.created != fact.created:
        if topic.deletion is Deletion.ERASING or fact.created < topic.created:
            return
        forget(work, topic)
        topic = None
    if topic is None:
        _add_topic(work, fact, spare_id)
    elif topic.flight:
        topic.seen_version = fact.znode_version
    elif topic.reading or fact.znode_version > topic.node.znode_version:
        topic.reading = False
        topic_nodes.learn(work, topic, fact)
        _review(work, topic, fact)


def _add_topic(work: Work, fact: TopicFact, spare_id: bytes) -> None:
    topic_id = fact.topic_id or (spare_id if work.cluster.config.topic_ids else None)
    topic = Topic(fact, topic_id)
    work.cluster.add(topic)
    _add_partitions(work, topic, fact.partitions)
    if fact.name in work.unknown_deletions:
        work.unknown_deletions.discard(fact.name)
        deletions.deletions_seen(work, [fact.name])
    topic_nodes.rewrite(work, topic)


def _add_partitions(work: Work, topic: Topic, assignments: dict[int, Assignment]) -> None:
    for index, assignment in sorted(assignments.items()):
        partition = topic.partitions[index] = Partition(topic, index, assignment)
        partition.begin()
        topic.unsettled.add(index)
        work.cluster.place(partition, partition.replicas)
        if partition.adding or partition.removing:
            partition.moving = Moving.START
        work.mark(partition)
    if work.ready and assignments:
        work.report(TopicAdded(topic.name, len(assignments)))


def _review(work: Work, topic: Topic, fact: TopicFact) -> None:
    """Handles changes of a topic's znode: new partitions, missing partitions, and a changed topic
    id."""
    more = {i: a for i, a in fact.partitions.items() if i not in topic.partitions}
    if more and topic.deletion is not Deletion.NO:
        topic.restore = True
    elif more:
        _add_partitions(work, topic, more)
    if topic.topic_id is None and fact.topic_id is not None:
        topic.topic_id = fact.topic_id
        work.cluster.add(topic)
        for partition in topic.partitions.values():
            partition.owed = partition.replicas
            work.mark(partition)
    if fact.topic_id != topic.topic_id:
        topic.restore = True
    for index, partition in topic.partitions.items():
        said = fact.partitions.get(index)
        if said is None or said[1:] != (partition.adding, partition.removing):
            topic.restore = topic.restore or index not in topic.wanted
    topic_nodes.rewrite(work, topic)


def begin(work: Work) -> None:
    """Begins the work on topics when the controller is ready: writes topic ids for topics without a
    topic id, and handles topics that were created or deleted since the first read."""
    if work.names_seen is not None:
        topics_seen(work, work.names_seen)
    for topic in work.cluster.topics.values():
        topic_nodes.rewrite(work, topic)


def states_read(work: Work, states: Iterable[tuple[TopicPartition, LeaderAndIsr | None]]) -> None:
    for key, found in states:
        partition = work.cluster.partition(key)
        if partition is None or partition.topic.is_being_deleted:
            continue
        if work.ready:
            state_read(work, partition, found)
        elif found is not None:
            adopt(partition, found)
            if found.controller_epoch > work.cluster.epoch:
                work.report(OtherController(*key, found.controller_epoch))


def unclean_seen(work: Work, name: str, allowed: bool | None) -> None:
    """Handles a new value of unclean.leader.election.enable, of a topic or of the cluster.
    Partitions without a leader are queued for `settle`, which may now elect an unclean leader."""
    cluster = work.cluster
    if name:
        topic = cluster.topics.get(name)
        if topic is None:
            return
        topic.unclean, topic.unclean_asked = allowed, True
        topics = [topic]
    else:
        cluster.unclean = (
            cluster.config.unclean_leader_election_enable if allowed is None else allowed
        )
        topics = [*cluster.topics.values()]
    for each in topics:
        if cluster.allows_unclean(each):
            for partition in each.partitions.values():
                if partition.state is PartitionState.OFFLINE:
                    work.mark(partition)
