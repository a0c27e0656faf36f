"""Alerts about a cluster in a real Prometheus: each alert fires during its fault and clears
afterwards. The rules are Muster's rules with shorter durations."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.dashboards.prometheus import RULES, Prometheus, scraping
from tests.interop.zookeeper_cluster import MUSTER, ZooKeeperCluster, running
from tests.waiting import until
from tests.wire import Wire

SHORTER = {
    r"for: \d+m": "for: 1s",
    r"_lag_seconds > 60": "_lag_seconds > 1",
    r"lag_records\[10m\]": "lag_records[5s]",
    r"\"unclean\"\}\[1h\]": '"unclean"}[15s]',
}
SETTINGS = {
    # # The alert about a paused broker must fire before the broker's session expires.
    "zookeeper.session.timeout.ms": "30000",
    "min.insync.replicas": "1",
    "replica.socket.timeout.ms": "1000",
    "replica.fetch.max.bytes": "1000",
}
WITHIN_S = 120
BROKER = 4


class Alerts:
    """The firing alerts of a Prometheus."""

    def __init__(self, prometheus: Prometheus, cluster: ZooKeeperCluster) -> None:
        self._prometheus = prometheus
        self._brokers = {address: broker for broker, address in cluster.http.items()}

    def of(self, name: str) -> set[int]:
        firing = self._prometheus.firing()
        return {self._brokers[where] for alert, where in firing if alert == f"Muster{name}"}

    def until_fires(self, name: str, brokers: set[int]) -> None:

        def is_so() -> bool:
            found = self.of(name)
            assert found == brokers, (name, found, self._prometheus.firing())
            return True

        until(f"{name} fires", is_so, WITHIN_S)

    def until_clear(self, *names: str) -> None:

        def are_clear() -> bool:
            found = {name: self.of(name) for name in names}
            assert not any(found.values()), found
            return True

        until("the alerts have cleared", are_clear, WITHIN_S)


@pytest.mark.interop
@pytest.mark.timeout(900)
def test_each_cluster_alert_fires_during_its_fault_and_clears_afterwards(tmp_path: Path) -> None:
    with running(tmp_path, dict.fromkeys((1, 2, 3), MUSTER), SETTINGS) as cluster:
        cluster.create("orders", 3, 3)
        with scraping(tmp_path, *cluster.http.values(), rules=quick_rules(tmp_path)) as prometheus:
            alerts = Alerts(prometheus, cluster)
            alerts.until_clear(*NAMES)
            with leading_uncleanly(cluster):
                alerts.until_fires("UncleanElection", {1})
            with falling_behind(cluster):
                alerts.until_fires("FollowerFallsBehind", {3})
            with standing_still(cluster, 3):
                alerts.until_fires("ReplicaFetchFails", {1, 2})
            with nobody_elected(cluster):
                alerts.until_fires("ControllerNotOne", {1, 2, 3})
            with cluster.without_zookeeper():
                alerts.until_fires("ZooKeeperLost", {1, 2, 3})
            alerts.until_clear(*NAMES)


NAMES = (
    "UncleanElection",
    "FollowerFallsBehind",
    "ReplicaFetchFails",
    "ControllerNotOne",
    "ZooKeeperLost",
)


def quick_rules(folder: Path) -> Path:
    """Writes a copy of the alert rules, with shorter durations, to ``folder``. Returns the path of
    the copy."""
    text = (RULES / "rules.yml").read_text()
    for pattern, instead in SHORTER.items():
        text, count = re.subn(pattern, instead, text)
        assert count, pattern
    path = folder / "rules.yml"
    path.write_text(text)
    return path


# ---------------------------------------------------------------------------------- the faults


def created(cluster: ZooKeeperCluster, topic: str, replicas: list[int], **configs: str) -> None:
    placed = [{"partition_index": 0, "broker_ids": replicas}]
    counts = {"num_partitions": -1, "replication_factor": -1}
    settings = [{"name": name.replace("_", "."), "value": value} for name, value in configs.items()]
    made = {"name": topic, **counts, "assignments": placed, "configs": settings}
    with Wire(cluster.ports[cluster.controller()]) as wire:
        answer = wire.call("CreateTopics", 5, {"topics": [made], "timeout_ms": 30_000})
    assert [each["error_code"] for each in answer["topics"]] == [0], answer
    until(f"{topic} is there", lambda: isr(cluster, topic) == sorted(replicas))


def isr(cluster: ZooKeeperCluster, topic: str) -> list[int]:
    state = cluster.state(topic, 0)
    return [] if state is None else sorted(state["isr"])


@contextmanager
def leading_uncleanly(cluster: ZooKeeperCluster) -> Iterator[None]:
    """Causes an unclean election. Broker 3, the only in-sync replica, is killed, and broker 2
    becomes the leader."""
    created(cluster, "risky", [3, 2], unclean_leader_election_enable="true")
    cluster.stop(2)
    until("3 is alone in sync", lambda: isr(cluster, "risky") == [3], WITHIN_S)
    cluster.kill(3)
    cluster.until_gone(3, WITHIN_S)
    cluster.start(2)
    until("2 leads", lambda: cluster.state("risky", 0)["leader"] == 2, WITHIN_S)
    yield
    cluster.start(3)
    cluster.until_settled()


def throttled(cluster: ZooKeeperCluster, broker: int, bytes_a_second: int) -> None:
    rate = {"name": "follower.replication.throttled.rate", "value": str(bytes_a_second)}
    changes = [{**rate, "config_operation": 0}]
    resource = {"resource_type": BROKER, "resource_name": str(broker), "configs": changes}
    with Wire(cluster.ports[broker]) as wire:
        answer = wire.call("IncrementalAlterConfigs", 1, {"resources": [resource]})
    assert answer["responses"][0]["error_code"] == 0, answer


@contextmanager
def falling_behind(cluster: ZooKeeperCluster) -> Iterator[None]:
    """Lets broker 3 fall behind: the leader receives 10 kB/s, and broker 3 may replicate only 1
    kB/s."""
    created(cluster, "slow", [1, 3], follower_replication_throttled_replicas="*")
    throttled(cluster, 3, 1000)
    cluster.stop(3)
    until("1 is alone in sync", lambda: isr(cluster, "slow") == [1], WITHIN_S)
    done = threading.Event()
    writer = threading.Thread(target=write, args=(cluster, done), daemon=True)
    writer.start()
    try:
        cluster.start(3)
        yield
    finally:
        done.set()
        writer.join(30)
        throttled(cluster, 3, 100_000_000)
    until("3 has caught up", lambda: isr(cluster, "slow") == [1, 3], WITHIN_S)


def write(cluster: ZooKeeperCluster, done: threading.Event) -> None:
    """Produces up to 10 kB/s until ``done`` is set."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "1", "log_level": 0})
    while not done.wait(0.1):
        producer.produce("slow", bytes(1000))
        producer.flush(10)


@contextmanager
def standing_still(cluster: ZooKeeperCluster, broker: int) -> Iterator[None]:
    """Suspends the process of the broker for less than its ZooKeeper session timeout."""
    cluster.pause(broker)
    try:
        yield
    finally:
        cluster.resume(broker)


@contextmanager
def nobody_elected(cluster: ZooKeeperCluster) -> Iterator[None]:
    """Replaces `/controller` in ZooKeeper by a broker that does not exist, so that the cluster has
    no controller."""
    nodes, path = cluster.nodes, "/controller"
    other = json.dumps({"version": 1, "brokerid": 9, "timestamp": "1"}).encode()
    change = nodes.transaction()
    change.delete(path)
    change.create(path, other, ephemeral=True)
    change.commit()
    try:
        yield
    finally:
        nodes.delete(path)
    until("there is a controller", lambda: cluster.controller() in cluster.processes)
