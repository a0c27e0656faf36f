"""Measures Produce with acks=all: megabytes per second, CPU per megabyte and latency."""

from __future__ import annotations

from bench.cluster.running import MEGABYTE, MeasuredCluster

PARTITIONS = 6
SPAN = "from the request on the client's socket to the response, when all in-sync replicas have it"
_RECORDS_BYTES = 16 * 1000
_FLAGS = "-scenario produce -conns 6 -depth 5 -topic produced"


def prepare(cluster: MeasuredCluster, warm_s: float) -> None:
    cluster.create("produced", PARTITIONS, 3, **{"min.insync.replicas": "2"})
    cluster.load(_FLAGS, topicparts=PARTITIONS, secs=0.5, warm=warm_s)


def measure(cluster: MeasuredCluster, secs: float) -> dict[str, float]:
    """Produces with acks=all: requests of 16 records of 1 kB, five requests in flight per
    partition."""
    zookeeper = cluster.zookeeper_cpu_s()
    found = cluster.load(_FLAGS, topicparts=PARTITIONS, secs=secs, warm=1)
    if found["bad"]:
        raise SystemExit(f"{found['bad']} Produce requests were refused by {cluster.kind}")
    mb_per_s = found["ops_s"] * _RECORDS_BYTES / MEGABYTE
    cpu_ms = found["server_cpu_us_op"] / 1000 * MEGABYTE / _RECORDS_BYTES
    of_zookeeper = (cluster.zookeeper_cpu_s() - zookeeper) * 1000 / (mb_per_s * (secs + 1))
    return {
        "MB/s": mb_per_s,
        "CPU ms/MB": cpu_ms,
        "with ZooKeeper": cpu_ms + of_zookeeper,
        "p50 ms": found["p50_ms"],
        "p99 ms": found["p99_ms"],
    }
