"""Creates topics, and waits until the broker's metadata shows changes of topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cli import clock
from cli.client.cluster import RETRY_S, Cluster
from client.connection import Value


class NewTopic(NamedTuple):
    """A topic to create. -1 in a field means the broker's default."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


def create_topics(cluster: Cluster, topics: Sequence[NewTopic]) -> list[Value]:
    """Creates topics with one request. Returns the response for each topic, including its error
    code."""
    controller = cluster.controller()
    if controller.version_of("CreateTopics") < 4:  # defaults by -1 exist since version 4 (KIP-464)
        topics = [
            topic._replace(
                partitions=max(topic.partitions, 1),
                replication_factor=max(topic.replication_factor, 1),
            )
            for topic in topics
        ]
    asked = [
        {
            "name": topic.name,
            "num_partitions": topic.partitions,
            "replication_factor": topic.replication_factor,
            "assignments": [],
            "configs": [{"name": name, "value": value} for name, value in topic.configs.items()],
        }
        for topic in topics
    ]
    timeout_ms = int(cluster.timeout_s * 1000)
    answer = controller.call(
        "CreateTopics",
        {"topics": asked, "timeout_ms": timeout_ms, "validate_only": False},
        cluster.timeout_s + 5,
    )
    return list(answer["topics"])


def settled(cluster: Cluster, least: Mapping[str, int]) -> None:
    """Waits until the broker shows at least the partition counts in ``least``, all with leaders. A
    count of 0 means that the topic is deleted.

    The controller responds before the brokers know of a change. The function requests the metadata
    of all topics, because before Kafka 0.11 a request that names a topic creates this topic.
    """
    deadline = clock.monotonic_s() + cluster.timeout_s
    while clock.monotonic_s() < deadline:
        found = {each["name"]: each for each in cluster.metadata(None)["topics"]}
        if all(_is_settled(found.get(topic), count) for topic, count in least.items()):
            return
        clock.sleep(RETRY_S)


def _is_settled(topic: Value | None, least: int) -> bool:
    if topic is None or not least:
        return topic is None and not least
    leaders = [partition["leader_id"] for partition in topic["partitions"]]
    return len(leaders) >= least and min(leaders) >= 0
