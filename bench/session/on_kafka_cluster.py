"""Pytest fixtures for a session of tests on a cluster of three Apache Kafkas and a ZooKeeper. Each
test uses its own topic and group names."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bench.session import figures
from tests.held import Held
from tests.interop.zookeeper_cluster import KAFKA, ZooKeeperCluster, running

BROKERS = (1, 2, 3)
LIKE_MUSTERS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "auto.leader.rebalance.enable": "false",
}


class Served:
    """The shared cluster, and the names of the topic and of the group that one test uses."""

    def __init__(self, cluster: ZooKeeperCluster, name: str) -> None:
        self._cluster = cluster
        self.bootstrap_servers = cluster.bootstrap
        self.orders = f"orders-{name}"
        self.group = f"billing-{name}"

    def create_topic(self, name: str) -> None:
        self._cluster.create(name, 1, len(BROKERS))

    @contextmanager
    def killed_leader(self) -> Iterator[None]:
        """Kills the leader. At the end of the block, starts this broker again and waits until all
        replicas are in sync."""
        leader = self._cluster.partitions(self.orders)[0][0]
        self._cluster.kill(leader)
        try:
            yield
        finally:
            self._cluster.until_gone(leader)
            self._cluster.start(leader)
            self._cluster.until_settled()


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperCluster]:
    found: dict[str, float] = {}
    began = time.perf_counter()
    folder = tmp_path_factory.mktemp("kafka")
    with running(folder, dict.fromkeys(BROKERS, KAFKA), LIKE_MUSTERS) as cluster:
        found["start"] = time.perf_counter() - began
        yield cluster
        found["MB"] = sum(Held(pid).rss_kb for pid in cluster.server_pids()) / 1024
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    figures.write({"brokers": used.ru_utime + used.ru_stime, **found})


@pytest.fixture
def cluster(kafka: ZooKeeperCluster, request: pytest.FixtureRequest) -> Served:
    return Served(kafka, request.node.name.translate(str.maketrans("[]", "--")))
