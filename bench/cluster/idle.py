"""Measures the cost of 3,000 idle partitions."""

from __future__ import annotations

import time

from bench.cluster.running import BROKERS, MeasuredCluster

PARTITIONS, TOPICS = 3000, 6
SPAN = "over at least 20 s without requests of clients"
_LEAST_S = 20


def prepare(cluster: MeasuredCluster, warm_s: float) -> None:
    """Creates the topics, and waits until the brokers have finished the work that the creation
    causes."""
    for number in range(TOPICS):
        cluster.create(f"idle-{number}", PARTITIONS // TOPICS, 3)
    time.sleep(warm_s)


def measure(cluster: MeasuredCluster, secs: float) -> dict[str, float]:
    """Measures the CPU time of brokers and ZooKeeper per minute, and the memory per broker."""
    secs = max(secs, _LEAST_S)
    brokers, zookeeper = cluster.cpu_s(), cluster.zookeeper_cpu_s()
    time.sleep(secs)
    minutes = secs / 60
    return {
        "CPU s per minute": (cluster.cpu_s() - brokers) / minutes,
        "ZooKeeper's CPU s per minute": (cluster.zookeeper_cpu_s() - zookeeper) / minutes,
        "resident MB per broker": cluster.resident_mb() / len(BROKERS),
    }
