"""Makes a sequence of changes to a cluster and returns the nodes in ZooKeeper, to compare Muster
with Kafka.

Values that always differ are removed: times, epochs, random ids, ports, and the numbers of
sequential nodes. A value that a broker chooses at random is replaced by a property that every
possible choice has.
"""

from __future__ import annotations

import json
import re
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from tests import waiting
from tests.commits import commit
from tests.interop.cluster_failures import MOVED, hard_bounce, new_election, reassignment
from tests.interop.zookeeper_cluster import ZooKeeperCluster

Tree = dict[str, Any]
"""The content of the ZooKeeper nodes, by path."""

ASSIGNMENT = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
_DRAWN = (
    "timestamp",
    "topic_id",
    "id",
    "leader_epoch",
    "controller_epoch",
    "port",
    "endpoints",
    "brokerid",
    "broker",
)
_SEQUENCE = re.compile(r"\d{10}$")


def play(cluster: ZooKeeperCluster) -> Tree:
    """Creates and changes topics on a cluster of brokers 1, 2 and 3. Returns the resulting
    ZooKeeper nodes."""
    admin = cluster.admin()
    for topic in (MOVED, "gone", "alone"):
        assignment = ASSIGNMENT if topic != "alone" else [[2]]
        made = admin.create_topics(
            [
                NewTopic(
                    topic,
                    len(assignment),
                    replica_assignment=assignment,
                    config={"retention.ms": "77000"},
                )
            ],
            operation_timeout=30,
        )
        made[topic].result(60)
    cluster.until_settled()
    if not cluster.is_old:
        _change(cluster)
    _use(cluster)
    admin.delete_topics(["gone"], operation_timeout=30)["gone"].result(60)
    waiting.until("the topic is gone", lambda: cluster.node("/brokers/topics/gone") is None)
    hard_bounce(cluster, 3)
    cluster.until_settled()
    new_election(cluster, 0)
    reassignment(cluster, 2)
    cluster.until_settled()
    _elect(cluster)
    return _tree(cluster)


def _change(cluster: ZooKeeperCluster) -> None:
    """Sends requests that only newer clients send. They change settings and add partitions."""
    admin = cluster.admin()
    entry = ConfigEntry("retention.bytes", "88000", incremental_operation=AlterConfigOpType.SET)
    topic = ConfigResource(ResourceType.TOPIC, "alone", incremental_configs=[entry])
    for done in admin.incremental_alter_configs([topic]).values():
        done.result(60)
    admin.create_partitions([NewPartitions("alone", 2, [[3]])])["alone"].result(60)
    cluster.until_settled()


def _use(cluster: ZooKeeperCluster) -> None:
    """Runs a producer and commits an offset. The producer has a producer id if the Kafka version
    supports it."""
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "acks": "all",
            "enable.idempotence": not cluster.is_old,
        }
    )
    producer.produce(MOVED, b"v", partition=0)
    assert producer.flush(60) == 0
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "billing"})
    commit(consumer, {(MOVED, 0): 1})
    consumer.close()


def _elect(cluster: ZooKeeperCluster) -> None:

    def led() -> bool:
        for topic in cluster.nodes.get_children("/brokers/topics"):
            for partition, replicas in cluster.assignment(topic).items():
                found = cluster.state(topic, partition)
                assert found["leader"] == replicas[0], (topic, partition, found)
        return True

    wanted = [
        {"topic": topic, "partition": partition}
        for topic in cluster.nodes.get_children("/brokers/topics")
        for partition in cluster.assignment(topic)
    ]
    asked = json.dumps({"version": 1, "partitions": wanted}).encode()
    cluster.nodes.create("/admin/preferred_replica_election", asked)
    path = "/admin/preferred_replica_election"
    waiting.until("the election is over", lambda: cluster.nodes.exists(path) is None, 60)
    waiting.until("the preferred replicas lead", led, 60)


def _tree(cluster: ZooKeeperCluster) -> Tree:
    tree: Tree = {}
    unread = ["/"]
    while unread:
        path = unread.pop()
        data, stat = cluster.nodes.get(path)
        if path != "/":
            name = _SEQUENCE.sub("", path) + (" (ephemeral)" if stat.ephemeralOwner else "")
            tree[name] = _said(path, data)
        children = cluster.nodes.get_children(path)
        unread += [f"{path.rstrip('/')}/{child}" for child in children]
    return dict(sorted(tree.items()))


def _said(path: str, data: bytes) -> Any:
    """Returns the content of a node without random values and times, or None if no value is
    left."""
    if not data:
        return None
    value = json.loads(data)
    if not isinstance(value, dict):
        return type(value).__name__
    if "isr" in value:
        value["isr"] = sorted(value["isr"])
    if "/__" in path:
        _made_alike(value)
    for key in _DRAWN:
        if key in value:
            value[key] = type(value[key]).__name__
    return value


def _made_alike(value: dict[str, Any]) -> None:
    """Removes random choices from the content of a node: sorts the replicas, and replaces the
    leader by "preferred"."""
    if "partitions" in value:
        value["partitions"] = {
            index: sorted(replicas) for index, replicas in value["partitions"].items()
        }
    if "leader" in value:
        value["leader"] = "preferred"
