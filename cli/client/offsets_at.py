"""Where partitions begin and end, and which offset has a timestamp: ListOffsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cli.client.cluster import Cluster, Connection
from cli.errors import refused

EARLIEST = -2
LATEST = -1

Partition = tuple[str, int]


def offsets_at(
    cluster: Cluster, partitions: Iterable[Partition], timestamp: int | Mapping[Partition, int]
) -> dict[Partition, int]:
    """Return partition -> offset at a timestamp in ms, or at EARLIEST or LATEST.

    A mapping has a timestamp for each partition. A time after the last record gives -1.
    CommandError names the partition that is refused.
    """
    wanted = list(partitions)
    leaders = cluster.leaders(sorted({topic for topic, _ in wanted}))
    by_leader: dict[Connection, dict[str, list[int]]] = {}
    for topic, partition in wanted:
        if (topic, partition) in leaders:
            leader = leaders[topic, partition]
            by_leader.setdefault(leader, {}).setdefault(topic, []).append(partition)
    found: dict[Partition, int] = {}
    for leader, topics in by_leader.items():
        asked = [
            {
                "name": topic,
                "partitions": [
                    {
                        "partition_index": index,
                        "timestamp": timestamp
                        if isinstance(timestamp, int)
                        else timestamp[topic, index],
                        "max_num_offsets": 1,
                    }
                    for index in indexes
                ],
            }
            for topic, indexes in topics.items()
        ]
        request = {"replica_id": -1, "isolation_level": 0, "topics": asked}
        for topic in leader.call("ListOffsets", request)["topics"]:
            for answer in topic["partitions"]:
                index = answer["partition_index"]
                if answer["error_code"]:
                    raise refused(f"offsets of {topic['name']}-{index}", answer["error_code"])
                old_style = answer.get("old_style_offsets")  # version 0 lists segments' offsets
                found[topic["name"], index] = old_style[0] if old_style else answer["offset"]
    return found
