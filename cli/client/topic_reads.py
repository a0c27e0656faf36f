"""What the topic commands ask of brokers: how much a topic holds, and which groups read it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import NamedTuple

from cli import output
from cli.client.cluster import Cluster, Connection
from cli.client.group_reads import committed_of, list_groups, read_group
from cli.client.offsets_at import EARLIEST, LATEST, Partition, offsets_at


class Size(NamedTuple):
    """What a topic holds. ``bytes`` are those of the leaders' logs; None where brokers don't say.

    ``records`` are the offsets between start and end: a compacted topic has fewer records.
    """

    partitions: int
    records: int
    bytes: int | None


class Reader(NamedTuple):
    """A group that has offsets in a topic, or members that own partitions of it."""

    group_id: str
    offsets: int
    members: int


def sizes(cluster: Cluster, topics: Collection[str]) -> dict[str, Size]:
    """How much each topic holds."""
    leaders = cluster.leaders(sorted(topics))
    first = offsets_at(cluster, leaders, EARLIEST)
    end = offsets_at(cluster, leaders, LATEST)
    by_leader: dict[Connection, list[Partition]] = defaultdict(list)
    for key, leader in leaders.items():
        by_leader[leader].append(key)
    held: dict[Partition, int] = {}
    for leader, keys in by_leader.items():
        held.update(_bytes(leader, keys))
    found: dict[str, list[Partition]] = {topic: [] for topic in topics}
    for key in leaders:
        found[key[0]].append(key)
    return {
        topic: Size(
            len(keys),
            sum(end[key] - first[key] for key in keys),
            sum(held[key] for key in keys) if all(key in held for key in keys) else None,
        )
        for topic, keys in found.items()
    }


def _bytes(leader: Connection, keys: Iterable[Partition]) -> dict[Partition, int]:
    """The size of each partition's log; nothing from a broker older than Kafka 1.0."""
    if not leader.supports("DescribeLogDirs", 1):
        return {}
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, partition in keys:
        topics[topic].append(partition)
    asked = [{"topic": topic, "partitions": parts} for topic, parts in topics.items()]
    return {
        (topic["name"], partition["partition_index"]): partition["partition_size"]
        for folder in leader.call("DescribeLogDirs", {"topics": asked})["results"]
        for topic in folder["topics"]
        for partition in topic["partitions"]
        if not partition["is_future_key"]
    }


def readers(cluster: Cluster, topics: Collection[str]) -> dict[str, list[Reader]]:
    """Topic -> the groups that read it, by their ids; every group of the cluster is asked."""
    found: dict[str, list[Reader]] = {topic: [] for topic in topics}
    for row in output.progress(list_groups(cluster), "reading groups"):
        group_id = row["group"]
        if row["type"] not in ("classic", "consumer"):
            continue
        committed = committed_of(cluster, group_id)
        owners = read_group(cluster, group_id).owners
        for topic in {key[0] for key in (*committed, *owners)} & found.keys():
            offsets = sum(key[0] == topic for key in committed)
            members = len({member for key, member in owners.items() if key[0] == topic})
            found[topic].append(Reader(group_id, offsets, members))
    return found
