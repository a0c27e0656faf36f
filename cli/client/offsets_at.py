"""Where partitions begin and end, and which offset has a timestamp: ListOffsets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from cli.client.cluster import Cluster, Connection
from cli.errors import refused

EARLIEST = -2
LATEST = -1
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
"""Isolation levels (KIP-98): READ_COMMITTED shows nothing of a transaction before its commit."""

Partition = tuple[str, int]


def offsets_at(
    cluster: Cluster,
    partitions: Iterable[Partition],
    timestamp: int | Mapping[Partition, int],
    isolation: int = READ_UNCOMMITTED,
) -> dict[Partition, int]:
    """Return partition -> offset at a timestamp in ms, or at EARLIEST or LATEST.

    A mapping has a timestamp for each partition. A time after the last record gives -1.
    With READ_COMMITTED the latest offset is the last stable one, where open transactions begin.
    CommandError names the partition that is refused.
    """
    wanted = set(partitions)
    leaders = cluster.leaders(sorted({topic for topic, _ in wanted}))
    asked = {key: leader for key, leader in leaders.items() if key in wanted}
    found: dict[Partition, int] = {}
    for key, code, offset in answers_at(asked, timestamp, isolation):
        if code:
            raise refused(f"offsets of {key[0]}-{key[1]}", code)
        found[key] = offset
    return found


def answers_at(
    leaders: Mapping[Partition, Connection],
    timestamp: int | Mapping[Partition, int],
    isolation: int = READ_UNCOMMITTED,
) -> Iterator[tuple[Partition, int, int]]:
    """Yield for each partition its error code and the offset found, as its leader answers."""
    by_leader: dict[Connection, dict[str, list[int]]] = {}
    for (topic, partition), leader in leaders.items():
        by_leader.setdefault(leader, {}).setdefault(topic, []).append(partition)
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
        request = {"replica_id": -1, "isolation_level": isolation, "topics": asked}
        for topic in leader.call("ListOffsets", request)["topics"]:
            for answer in topic["partitions"]:
                old_style = answer.get("old_style_offsets")  # version 0 lists segments' offsets
                offset = old_style[0] if old_style else answer["offset"]
                yield (topic["name"], answer["partition_index"]), answer["error_code"], offset
