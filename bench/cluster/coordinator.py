"""Measures the fail-over of a killed group coordinator that has 1,000,000 committed offsets.

All offsets are in one partition of `__consumer_offsets`. Both measured times begin when ZooKeeper
removes the broker's node. The first time ends with the first correct OffsetFetch response. The
second time ends when every group has got a correct response.
"""

from __future__ import annotations

import time

from bench.cluster.running import BROKERS, MeasuredCluster
from bench.cluster.watching import Bystander, controller_of, expiry, until, zookeeper

GROUPS, PARTITIONS = 10_000, 100
SETTINGS = {"offsets.topic.num.partitions": "1", "zookeeper.session.timeout.ms": "3000"}
OFFSETS = "__consumer_offsets"
SPAN = "from the removal of the broker's node in ZooKeeper to correct OffsetFetch responses"
_FILL = f"-scenario fill -groups {GROUPS} -parts {PARTITIONS} -topicparts {PARTITIONS} -conns 32"
_TOPIC = "bench"
"""The topic name that groupload, the load generator, uses by default."""


def prepare(cluster: MeasuredCluster, _: float) -> None:
    """Commits offset n in every partition for group number n."""
    cluster.create(_TOPIC, PARTITIONS, 1)
    filled = cluster.load(_FILL)
    if filled["bad"]:
        raise SystemExit(f"{filled['bad']} commits were refused by {cluster.kind}")
    cluster.until_whole(OFFSETS, 3)


def measure(cluster: MeasuredCluster, _: float) -> dict[str, float]:
    """Kills the coordinator, and measures the fail-over.

    The killed broker is not the controller; `bench/cluster/controller.py` measures the fail-over of
    a controller.
    """
    killed = _coordinator_that_is_not_the_controller(cluster)
    gone_ns: list[int] = []
    left = [broker for broker in BROKERS if broker != killed]
    with expiry(cluster, killed, gone_ns):
        cluster.kill(killed)
        cpu = cluster.cpu_s()
        with Bystander(cluster) as bystander:
            until(lambda: gone_ns or None)
            until(lambda: any(_has(cluster, each, 0) for each in left) or None)
            first = time.time_ns()
            until(lambda: any(_has(cluster, each, GROUPS - 1) for each in left) or None)
            last = time.time_ns()
    figures = {
        "first response ms": (first - gone_ns[0]) / 1e6,
        "last group ms": (last - gone_ns[0]) / 1e6,
        "CPU ms": (cluster.cpu_s() - cpu) * 1000,
        "another client's longest wait ms": bystander.longest_s * 1000,
    }
    cluster.start(killed)
    cluster.until_brokers(set(BROKERS))
    cluster.until_whole(OFFSETS, 3)
    return figures


def _coordinator_that_is_not_the_controller(cluster: MeasuredCluster) -> int:
    [(leader, _)] = cluster.partitions(OFFSETS).values()
    with zookeeper(cluster) as client:
        while controller_of(client) == leader:
            client.delete("/controller")
            until(lambda: controller_of(client) >= 0 or None)
    cluster.until_brokers(set(BROKERS))
    return leader


def _has(cluster: MeasuredCluster, broker: int, group: int) -> bool:
    with cluster.connect(broker) as connection:
        answer = connection.call(
            "OffsetFetch",
            3,
            group_id=f"fill-{group}",
            topics=[{"name": _TOPIC, "partition_indexes": [PARTITIONS - 1]}],
        )
    if answer["error_code"]:
        return False
    [topic] = answer["topics"]
    [found] = topic["partitions"]
    if found["error_code"]:
        return False
    if found["committed_offset"] != group:
        raise SystemExit(f"fill-{group} has {found['committed_offset']} after the fail-over")
    return True
