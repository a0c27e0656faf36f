"""Removal of a topic from the controller's state, with replies to the requests about the topic."""

from __future__ import annotations

from controller import granting, reassignments, shutdowns
from controller.events import TopicRemoved
from controller.partition import Deletion, Topic
from controller.work import Work
from protocol.znodes.admin import delete_path


def forget(work: Work, topic: Topic) -> None:
    work.cluster.remove(topic)
    work.batch.drop(topic)
    work.queued.pop(topic.name, None)
    for partition in topic.partitions.values():
        work.cluster.displace(partition, (*partition.replicas, *partition.leaving))
        partition.flight = None
        work.moves_asked.pop(partition.key, None)
        reassignments.forget(work, partition)
        granting.refuse_all(work, partition)
        shutdowns.settled(work, partition)
    if topic.deletion in (Deletion.QUEUED, Deletion.STARTED):
        work.delete_nodes([delete_path(topic.name)])
    reassignments.shrink_node(work)
    work.report(TopicRemoved(topic.name))
