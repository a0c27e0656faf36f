"""The fixtures of a session on three Musters: a `MusterCluster`, which is reset for each test."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest

from bench.session import figures
from bench.throughput import cpu_s
from musterd.testing import MusterCluster
from tests.held import Held


class Started:
    """The cluster of a benchmark session, and the times of its resets."""

    def __init__(self) -> None:
        began = time.perf_counter()
        self.cluster = MusterCluster()
        self.cluster.start()
        self.start_s = time.perf_counter() - began
        self.resets_ms: list[float] = []

    def reset(self) -> None:
        began = time.perf_counter()
        self.cluster.reset()
        self.resets_ms.append((time.perf_counter() - began) * 1000)

    def figures(self) -> dict[str, float]:
        return {
            "brokers": cpu_s(self.cluster.pid),
            "start": self.start_s,
            "MB": Held(self.cluster.pid).rss_kb / 1024,
            "reset ms": statistics.median(self.resets_ms),
        }


class Served:
    """The interface with which a test of the benchmark session uses the measured cluster."""

    orders = "orders"
    group = "billing"

    def __init__(self, cluster: MusterCluster) -> None:
        self._cluster = cluster
        self.bootstrap_servers = cluster.bootstrap_servers
        self.create_topic = cluster.create_topic

    def killed_leader(self) -> AbstractContextManager[object]:
        """Kill the leader until the end of the block."""
        return self._cluster.kill(self._cluster.leader(self.orders))


@pytest.fixture(scope="session")
def started() -> Iterator[Started]:
    made = Started()
    yield made
    figures.write(made.figures())
    made.cluster.close()


@pytest.fixture
def cluster(started: Started) -> Served:
    started.reset()
    return Served(started.cluster)
