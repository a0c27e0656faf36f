"""The topic partitions that each member's tasks read. From these partitions, clients find the
member that serves a key (interactive queries).

Members with a user endpoint report it to the group. Each member gets the partitions at each
endpoint. Source: Kafka 4.4 ``EndpointToPartitionsManager``. Kafka 4.3.1 also returns partitions
that do not exist.
"""

from __future__ import annotations

from coordinator.streams.topology import ConfiguredTopology
from coordinator.topics_image import TopicsImage
from offsets.streams_records import Tasks


def topic_partitions(
    tasks: Tasks, configured: ConfiguredTopology, image: TopicsImage
) -> list[tuple[str, tuple[int, ...]]]:
    """Returns the partitions that the tasks read, of source topics and repartition source topics,
    in order of subtopology and topic.

    Task n reads partition n of each topic of its subtopology. If a topic does not have these
    partitions, the result omits them.
    """
    found = []
    for subtopology in configured.subtopologies:
        partitions = tasks.get(subtopology.subtopology_id)
        if not partitions:
            continue
        names = {topic.name for topic in subtopology.repartition_source_topics}
        for name in sorted(names.union(subtopology.source_topics)):
            topic = image.by_name.get(name)
            count = topic.partitions if topic is not None else 0
            existing = tuple(partition for partition in partitions if partition < count)
            if existing:
                found.append((name, existing))
    return found
