"""A cluster of Apache Kafka becomes one of Musters broker by broker, under load, and goes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import run
from tests.interop.steady_clients import ORDERS, PARTITIONS, PAYMENTS, steady_clients
from tests.interop.zookeeper_cluster import KAFKA, MUSTER, ZooKeeperCluster, running
from tests.waiting import until

pytestmark = pytest.mark.interop

BROKERS = (1, 2, 3)


@pytest.mark.timeout(900)
def test_the_same_directories_there_and_back(tmp_path: Path) -> None:
    with running(tmp_path / "c", dict.fromkeys(BROKERS, KAFKA)) as cluster:
        for topic in (ORDERS, PAYMENTS):
            cluster.create(topic, PARTITIONS, 3)
        with steady_clients(cluster.bootstrap) as clients:
            for kind in (MUSTER, KAFKA):
                for broker in BROKERS:
                    move(cluster, broker, kind)
                    clients.until_served()
            clients.stop()
        for broker in BROKERS:
            cluster.stop(broker)
        same_replicas(cluster)


def move(cluster: ZooKeeperCluster, broker: int, kind: str) -> None:
    """Stops a broker and starts one of another kind on its directory; then nothing is wrong."""
    cluster.stop(broker)
    cluster.kinds[broker] = kind
    cluster.start(broker)
    cluster.until_brokers(set(BROKERS))
    until("nothing is wrong", lambda: nothing_wrong(cluster), 90)


def nothing_wrong(cluster: ZooKeeperCluster) -> bool:
    """Whether `muster cluster check` has nothing to say."""
    ran = run("cluster", "check", "-b", cluster.bootstrap)
    assert ran.code == 0, ran.out + ran.err
    return True


def same_replicas(cluster: ZooKeeperCluster) -> None:
    """All replicas of all partitions, those of Kafka's own topics too, are the same bytes."""
    for folder in sorted(cluster.directory(1).glob("*-[0-9]*")):
        topic, _, partition = folder.name.rpartition("-")
        logs = cluster.logs(topic, int(partition))
        assert len(logs) == len(BROKERS), folder.name
        assert len(set(logs.values())) == 1, {each: len(log) for each, log in logs.items()}
