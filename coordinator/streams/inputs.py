"""The topic partitions that tasks read, for views and the journal."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from coordinator.streams.group import StreamsGroup
from coordinator.topics_image import TopicsImage

Inputs = dict[str, list[int]]
"""The partitions of each topic, in ascending order."""


def inputs(group: StreamsGroup, tasks: Mapping[str, Collection[int]], image: TopicsImage) -> Inputs:
    """Returns the partitions that ``tasks`` read. Only partitions of existing source topics and
    repartition topics are returned."""
    found: Inputs = {}
    topology = group.topology
    for each in () if topology is None else topology.subtopologies:
        partitions = sorted(tasks.get(each.subtopology_id, ()))
        repartition = [topic.name for topic in each.repartition_source_topics]
        for name in (*each.source_topics, *repartition) if partitions else ():
            topic = image.by_name.get(name)
            if topic is not None:
                read = [partition for partition in partitions if partition < topic.partitions]
                found.setdefault(name, []).extend(read)
    return found
