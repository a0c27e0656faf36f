"""Reads the sizes of topics, and the groups that read each topic."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from cli.client.at_once import Call, at_once
from cli.client.cluster import Cluster, Connection
from cli.client.group_reads import CLASSIC, CONSUMER, Known, groups_with_offsets, list_groups
from cli.client.offsets_at import Partition, bounds_of
from client.connection import Value


class Size(NamedTuple):
    """The size of a topic. ``records`` is the number of offsets between log start and log end; a
    compacted topic contains fewer records. ``bytes`` is the size of the leaders' logs. A field is
    None if a partition has no leader or a broker does not report sizes."""

    partitions: int
    records: int | None
    bytes: int | None


class Reader(NamedTuple):
    """A group that reads a topic: it has committed offsets in the topic, or its members own
    partitions of the topic."""

    group_id: str
    offsets: int
    members: int


def sizes(cluster: Cluster, answer: Value) -> dict[str, Size]:
    """Returns the size of each topic in a Metadata response. Sends three requests to each
    broker."""
    leaders = cluster.leaders_in(answer)
    return sizes_in(answer, bounds_of(cluster, leaders), bytes_of(cluster, leaders))


def sizes_in(
    answer: Value, bounds: Mapping[Partition, tuple[int, int]], held: Mapping[Partition, int]
) -> dict[str, Size]:
    """Returns the size of each topic, computed from ``bounds`` (log start and end offsets) and
    ``held`` (bytes) of its partitions."""
    records = {key: end - first for key, (first, end) in bounds.items()}
    found = {}
    for topic in answer["topics"]:
        keys = [(topic["name"], partition["partition_index"]) for partition in topic["partitions"]]
        found[topic["name"]] = Size(len(keys), _sum(keys, records), _sum(keys, held))
    return found


def _sum(keys: Sequence[Partition], values: Mapping[Partition, int]) -> int | None:
    return sum(values[key] for key in keys) if all(key in values for key in keys) else None


def bytes_of(cluster: Cluster, leaders: Mapping[Partition, Connection]) -> dict[Partition, int]:
    """Returns the log size in bytes of each partition on its leader. Leaders before Kafka 1.0 are
    skipped."""
    by_leader: dict[Connection, dict[str, list[int]]] = {}
    for (topic, partition), leader in leaders.items():
        if leader.supports("DescribeLogDirs", 1):
            by_leader.setdefault(leader, {}).setdefault(topic, []).append(partition)
    calls = [
        Call(
            leader,
            "DescribeLogDirs",
            {"topics": [{"topic": topic, "partitions": each} for topic, each in topics.items()]},
        )
        for leader, topics in by_leader.items()
    ]
    return {
        (topic["name"], partition["partition_index"]): partition["partition_size"]
        for answer in at_once(cluster, calls)
        for folder in answer["results"]
        for topic in folder["topics"]
        for partition in topic["partitions"]
        if not partition["is_future_key"]
    }


def readers(cluster: Cluster, topics: Collection[str]) -> dict[str, list[Reader]]:
    """Returns the groups that read each topic, ordered by id. Requests all groups of the
    cluster."""
    found: dict[str, list[Reader]] = {topic: [] for topic in topics}
    for group_id, (group, committed) in _every_group(cluster).items():
        owners = group.owners
        for topic in {key[0] for key in (*committed, *owners)} & found.keys():
            offsets = sum(key[0] == topic for key in committed)
            members = len({member for key, member in owners.items() if key[0] == topic})
            found[topic].append(Reader(group_id, offsets, members))
    return found


def committed_in(cluster: Cluster, topics: Collection[str]) -> dict[str, dict[Partition, int]]:
    """Returns the committed offsets in the topics, by group id. Requests all groups of the
    cluster."""
    found = {}
    for group_id, known in _every_group(cluster).items():
        offsets = {key: each.offset for key, each in known.committed.items() if key[0] in topics}
        if offsets:
            found[group_id] = offsets
    return found


def _every_group(cluster: Cluster) -> dict[str, Known]:
    """Returns all classic and consumer groups of the cluster with their committed offsets."""
    asked = [row["group"] for row in list_groups(cluster) if row["type"] in (CLASSIC, CONSUMER)]
    return groups_with_offsets(cluster, asked)
