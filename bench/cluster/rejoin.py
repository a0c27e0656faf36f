"""Measures how fast a follower that missed 1 GiB returns to the ISR: MB/s, time and CPU."""

from __future__ import annotations

import time

from bench.cluster.running import BROKERS, MEGABYTE, MeasuredCluster

PARTITIONS = 8
MISSED_BYTES = 1 << 30
TOPIC = "missed"
SPAN = "from the follower's exec, or its registration, to Metadata with all replicas in sync"
_AWAY = 3
_PRODUCE = f"-scenario produce -conns {PARTITIONS} -depth 5 -topic {TOPIC}"
_PIECE_S = 2


def prepare(cluster: MeasuredCluster, _: float) -> None:
    cluster.create(TOPIC, PARTITIONS, 3, **{"min.insync.replicas": "2"})


def measure(cluster: MeasuredCluster, _: float) -> dict[str, float]:
    """Kills one broker, writes 1 GiB, starts the broker again, and measures its return to the
    ISR."""
    cluster.kill(_AWAY)
    cluster.until_led(TOPIC, without=_AWAY)
    before = _size(cluster, _AWAY)
    while _size(cluster, BROKERS[0]) - before < MISSED_BYTES:
        cluster.load(_PRODUCE, topicparts=PARTITIONS, secs=_PIECE_S, warm=0)
    missed_mb = (_size(cluster, BROKERS[0]) - before) / MEGABYTE
    leaders_cpu = cluster.cpu_s()
    cluster.start(_AWAY)
    began = time.perf_counter()
    cluster.until_brokers(set(BROKERS))
    registered = time.perf_counter()
    cluster.until_whole(TOPIC, 3)
    done = time.perf_counter()
    own_cpu = cluster.broker_cpu_s(_AWAY)
    return {
        "missed MB": missed_mb,
        "registered s": registered - began,
        "all in sync s": done - began,
        "MB/s since registration": missed_mb / (done - registered),
        "follower's CPU ms/MB": own_cpu * 1000 / missed_mb,
        "leaders' CPU ms/MB": (cluster.cpu_s() - own_cpu - leaders_cpu) * 1000 / missed_mb,
    }


def _size(cluster: MeasuredCluster, broker: int) -> int:
    """Returns the total size of the topic's segments on a broker, in bytes."""
    logs = cluster.directory(broker).glob(f"{TOPIC}-*/*.log")
    return sum(each.stat().st_size for each in logs)
