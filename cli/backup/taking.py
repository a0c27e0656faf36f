"""Reads the contents of a backup (topics, settings, offsets) from any Kafka cluster."""

from __future__ import annotations

from cli import clock, output
from cli.backup.file import Backup, SavedTopic
from cli.client.cluster import Cluster
from cli.client.configs import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    Resource,
    describe_each,
    own_settings,
)
from cli.client.group_reads import committed_of_groups, list_groups

BATCH = 500
"""The maximum number of topics in one DescribeConfigs request."""


def take(cluster: Cluster) -> tuple[Backup, list[str]]:
    """Returns a backup of the whole cluster, and the names of settings whose values the broker
    hides. Offsets are read after topics, so that almost every offset belongs to a topic in the
    backup."""
    taken_ms = clock.now_ms()
    metadata = cluster.metadata(None)
    hidden: list[str] = []
    topics = [topic for topic in metadata["topics"] if not topic["is_internal"]]
    configs: dict[str, dict[str, str]] = {}
    for start in output.progress(range(0, len(topics), BATCH), "reading topics"):
        part = topics[start : start + BATCH]
        resources = [Resource(TOPIC_RESOURCE, topic["name"]) for topic in part]
        for resource, entries in describe_each(cluster.any, resources, explained=False).items():
            configs[resource.name] = _open(resource, own_settings(resource, entries), hidden)
    saved = [
        SavedTopic(
            topic["name"],
            len(topic["partitions"]),
            max((len(p["replica_nodes"]) for p in topic["partitions"]), default=1),
            configs[topic["name"]],
        )
        for topic in sorted(topics, key=lambda topic: str(topic["name"]))
    ]
    brokers = _brokers(cluster, [broker["node_id"] for broker in metadata["brokers"]], hidden)
    coordinators = cluster.coordinators(row["group"] for row in list_groups(cluster))
    found = committed_of_groups(cluster, coordinators)
    groups = {group_id: committed for group_id, committed in found.items() if committed}
    return Backup(taken_ms, metadata["cluster_id"], saved, brokers, groups), hidden


def _brokers(
    cluster: Cluster, node_ids: list[int], hidden: list[str]
) -> dict[int | None, dict[str, str]]:
    found: dict[int | None, dict[str, str]] = {}
    for node_id in [None, *sorted(node_ids)]:
        resource = Resource(BROKER_RESOURCE, "" if node_id is None else str(node_id))
        connection = cluster.any if node_id is None else cluster.broker(node_id)
        entries = describe_each(connection, [resource])[resource]
        if own := _open(resource, own_settings(resource, entries), hidden):
            found[node_id] = own
    return found


def _open(
    resource: Resource, own: dict[str, dict[str, object]], hidden: list[str]
) -> dict[str, str]:
    """Returns the settings of ``own`` as text. The broker hides the values of some settings (null):
    these settings are left out, and their names are added to ``hidden``."""
    hidden += [f"{name} of {resource}" for name, entry in own.items() if entry["value"] is None]
    return {name: str(entry["value"]) for name, entry in own.items() if entry["value"] is not None}
