"""Failures of a running cluster of three brokers, like those of Kafka's system tests.

Each function returns when the cluster has settled: all brokers are registered, a controller is
elected, and all replicas are in sync.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from kazoo.exceptions import NoNodeError

from tests import waiting
from tests.interop.zookeeper_cluster import ZooKeeperCluster

Failure = Callable[[ZooKeeperCluster, int], None]
"""A function that causes a failure of a broker or of the cluster, and returns when the cluster has
settled."""

MOVED = "plain"
"""The topic whose replicas the failure `reassignment` moves."""


def clean_bounce(cluster: ZooKeeperCluster, broker: int) -> None:
    cluster.stop(broker)
    cluster.until_gone(broker)
    _led_elsewhere(cluster, broker)
    cluster.start(broker)


def hard_bounce(cluster: ZooKeeperCluster, broker: int) -> None:
    cluster.kill(broker)
    cluster.until_gone(broker)
    _led_elsewhere(cluster, broker)
    cluster.start(broker)


def quick_bounce(cluster: ZooKeeperCluster, broker: int) -> None:
    """Kills the broker, and starts a Muster in its place before the old ZooKeeper session expires.
    Muster waits for the expiry."""
    path = f"/brokers/ids/{broker}"
    before = cluster.nodes.get(path)[1].czxid
    cluster.kill(broker)
    cluster.start(broker)

    def back() -> bool:
        return cluster.nodes.get(path)[1].czxid != before

    waiting.until(f"broker {broker} has a session of its own", back, 60, NoNodeError)


def pause(cluster: ZooKeeperCluster, broker: int) -> None:
    """Suspends the broker until its ZooKeeper session has expired and other brokers lead its
    partitions. Then resumes it."""
    cluster.pause(broker)
    cluster.until_gone(broker)
    _led_elsewhere(cluster, broker)
    cluster.resume(broker)


def new_election(cluster: ZooKeeperCluster, _: int) -> None:
    """Deletes `/controller` while the controller runs, so that a new controller is elected."""
    before = cluster.nodes.get("/controller")[1].czxid
    cluster.nodes.delete("/controller")

    def elected() -> bool:
        return cluster.nodes.get("/controller")[1].czxid != before

    waiting.until("there is another election", elected, 60, NoNodeError)


def controller_moves_to(cluster: ZooKeeperCluster, broker: int) -> None:
    """Deletes `/controller` repeatedly until ``broker`` is elected."""

    def won() -> bool:
        if cluster.controller() == broker:
            return True
        new_election(cluster, broker)
        return False

    waiting.until(f"broker {broker} is the controller", won, 120)


def reassignment(cluster: ZooKeeperCluster, broker: int) -> None:
    """Moves the replicas of a topic away from ``broker``, and then back with ``broker`` as the
    preferred leader."""
    others = [each for each in cluster.kinds if each != broker]
    _move(cluster, others)
    _move(cluster, [broker, *others])


def _move(cluster: ZooKeeperCluster, replicas: list[int]) -> None:
    partitions = sorted(cluster.assignment(MOVED))
    plan = [{"topic": MOVED, "partition": each, "replicas": replicas} for each in partitions]
    asked = json.dumps({"version": 1, "partitions": plan}).encode()
    cluster.nodes.create("/admin/reassign_partitions", asked)

    def moved() -> bool:
        node: Any = cluster.node(f"/brokers/topics/{MOVED}")
        assert cluster.node("/admin/reassign_partitions") is None
        assert not node.get("adding_replicas"), node
        assert not node.get("removing_replicas"), node
        found = cluster.assignment(MOVED)
        assert all(found[each] == replicas for each in partitions), found
        return True

    waiting.until(f"{MOVED} is at {replicas}", moved, 120)


def _led_elsewhere(cluster: ZooKeeperCluster, broker: int) -> None:

    def led() -> bool:
        for topic in cluster.nodes.get_children("/brokers/topics"):
            for partition, replicas in cluster.assignment(topic).items():
                found = cluster.state(topic, partition)
                assert len(replicas) == 1 or found["leader"] not in (-1, broker), (topic, found)
        return True

    waiting.until(f"broker {broker} leads nothing", led, 60)


OF_BROKERS: dict[str, Failure] = {
    "clean bounce": clean_bounce,
    "hard bounce": hard_bounce,
    "quick bounce": quick_bounce,
    "pause": pause,
}
FAILURES: dict[str, Failure] = {
    **OF_BROKERS,
    "new election": new_election,
    "controller moves": controller_moves_to,
    "reassignment": reassignment,
}
