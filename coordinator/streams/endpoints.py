"""The topic partitions of a member's tasks, by which clients find the member that serves a key.

Members with a user endpoint report it to the group, and each member gets the partitions at each
endpoint (interactive queries). Source: Kafka 4.3.1 ``EndpointToPartitionsManager``.
"""

from __future__ import annotations

from coordinator.streams.topology import ConfiguredTopology
from coordinator.topics_image import TopicsImage
from offsets.streams_records import Tasks


def topic_partitions(
    tasks: Tasks, configured: ConfiguredTopology, image: TopicsImage
) -> list[tuple[str, tuple[int, ...]]]:
    """Returns the partitions of the source and repartition source topics that these tasks read, in
    order of subtopology and topic.

    A task reads the partition with its number in each topic. As in Kafka, a topic with fewer
    partitions than ``tasks`` has in the subtopology gets the smallest numbers, and a topic with
    enough partitions gets all numbers. A topic or subtopology that no longer exists is omitted;
    Kafka replies UNKNOWN_SERVER_ERROR.
    """
    found = []
    for subtopology in configured.subtopologies:
        partitions = tasks.get(subtopology.subtopology_id)
        if not partitions:
            continue
        names = {topic.name for topic in subtopology.repartition_source_topics}
        for name in sorted(names.union(subtopology.source_topics)):
            topic = image.by_name.get(name)
            if topic is not None:
                found.append((name, partitions[: topic.partitions]))
    return found
