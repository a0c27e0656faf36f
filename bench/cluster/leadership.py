"""Measures how long 200 partitions have no leader after a kill, and after a stop, of their broker.

A prober writes to every partition of that broker, every 5 to 20 ms. It sends to the last known
leader of a partition, and to every broker while the partition has no leader. After a kill, the
measured time begins when ZooKeeper removes the broker's node, so the wait for the session's expiry
is not counted. After a stop, it begins with the last write that the stopped broker accepted. In
both cases it ends with the first write that the next leader accepts.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import ElectionType, KafkaException

from bench.cluster.running import BROKERS, MeasuredCluster
from bench.cluster.watching import expiry
from tests import waiting

PARTITIONS = 200
TOPIC = "moving"
SESSION_S = 3
SETTINGS = {"zookeeper.session.timeout.ms": str(SESSION_S * 1000)}
SPAN = (
    "from the removal of the broker's node in ZooKeeper, or from the last write before the stop,"
    " to the first write on another broker"
)
_FLAGS = f"-scenario leaderless -topic {TOPIC} -topicparts {PARTITIONS}"
_KILLED, _STOPPED = 3, 2
"""The brokers that are killed and stopped; the controller is broker 1."""
_MS = 1e6
_PROBER_S_MAX = 90


def prepare(cluster: MeasuredCluster, warm_s: float) -> None:
    """Creates the topic, and moves leadership once, because the first move is slow in a JVM."""
    cluster.create(TOPIC, PARTITIONS, 3)
    with _prober(cluster, _STOPPED) as prober:
        time.sleep(warm_s / 2)
        cluster.stop(_STOPPED)
        _gaps(prober, cluster, _STOPPED)
    _come_back(cluster, _STOPPED)


def measure(cluster: MeasuredCluster, _: float) -> dict[str, float]:
    """Kills one broker and stops another. Measures for each of these two brokers how long its
    partitions have no leader."""
    killed_ns: list[int] = []
    with _prober(cluster, _KILLED) as prober, expiry(cluster, _KILLED, killed_ns):
        cluster.kill(_KILLED)
        gaps = _gaps(prober, cluster, _KILLED)
    [gone_ns] = killed_ns
    killed = [(till - max(gone_ns, begun)) / _MS for begun, till in gaps if till > gone_ns]
    _come_back(cluster, _KILLED)
    with _prober(cluster, _STOPPED) as prober:
        cluster.stop(_STOPPED)
        gaps = _gaps(prober, cluster, _STOPPED)
    stopped = [(till - begun) / _MS for begun, till in gaps]
    _come_back(cluster, _STOPPED)
    return {
        "killed: partitions": len(killed),
        "killed: median ms": statistics.median(killed),
        "killed: longest ms": max(killed),
        "stopped: partitions": len(stopped),
        "stopped: median ms": statistics.median(stopped),
        "stopped: longest ms": max(stopped),
    }


@contextmanager
def _prober(cluster: MeasuredCluster, leader: int) -> Iterator[subprocess.Popen[str]]:
    """Yields a running load generator that writes to the partitions of the broker ``leader``. It
    has already written to each of them once."""
    at = f"127.0.0.1:{cluster.ports[leader]}"
    command = cluster.load_command(_FLAGS, leader=at, secs=_PROBER_S_MAX)
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as prober:
        assert prober.stdout is not None
        if prober.stdout.readline() != "ready\n":
            raise SystemExit(f"not all partitions of {TOPIC} accepted a write")
        yield prober


def _gaps(
    prober: subprocess.Popen[str], cluster: MeasuredCluster, without: int
) -> list[tuple[int, int]]:
    """Returns, for each partition whose leader changed, the time of the last write to the old
    leader and the time of the first write to the new leader.

    Times are in nanoseconds since 1970.
    """
    cluster.until_led(TOPIC, without)
    time.sleep(1)  # until the prober has written to the last new leader
    out, _ = prober.communicate(timeout=_PROBER_S_MAX)
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    if found["without_leader"]:
        raise SystemExit(f"partitions without a leader, by error: {found['without_leader']}")
    return [(begun, till) for begun, till in found["moved"]]


def _come_back(cluster: MeasuredCluster, broker: int) -> None:
    """Starts the broker, and waits until it is in sync and leads its partitions again."""
    cluster.start(broker)
    cluster.until_brokers(set(BROKERS))
    cluster.until_whole(TOPIC, 3)

    admin = cluster.admin()

    def led() -> bool:
        try:
            admin.elect_leaders(ElectionType.PREFERRED, None).result(30)
        except KafkaException:
            return False
        leaders = [leader for leader, _ in cluster.partitions(TOPIC).values()]
        return min(leaders.count(each) for each in BROKERS) >= PARTITIONS // len(BROKERS)

    waiting.until("each broker leads a third of the partitions", led, 60)
