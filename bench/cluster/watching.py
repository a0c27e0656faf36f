"""Observes a cluster during a change: ZooKeeper's nodes, and the latency of other requests."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar
from urllib.request import urlopen

from kazoo.client import KazooClient

from bench.cluster.running import MeasuredCluster

BYSTANDER_PAUSE_S = 0.002

Found = TypeVar("Found")


@contextmanager
def zookeeper(cluster: MeasuredCluster) -> Iterator[KazooClient]:
    client = KazooClient(cluster.zookeeper)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


@contextmanager
def expiry(cluster: MeasuredCluster, broker: int, gone_ns: list[int]) -> Iterator[None]:
    """When ZooKeeper removes the broker's node, appends the time to ``gone_ns``, in nanoseconds
    since 1970."""
    with zookeeper(cluster) as client:
        path = f"/brokers/ids/{broker}"
        assert client.exists(path, watch=lambda _: gone_ns.append(time.time_ns()))
        yield


def controller_of(client: KazooClient) -> int:
    """The controller's broker id in ZooKeeper; -1 if `/controller` does not exist."""
    with suppress(Exception):
        return int(json.loads(client.get("/controller")[0])["brokerid"])
    return -1


class Bystander:
    """Sends ApiVersions to each broker continuously; ``longest_s`` is the longest response time."""

    def __init__(self, cluster: MeasuredCluster) -> None:
        self.longest_s = 0.0
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask, args=(cluster, broker), daemon=True)
            for broker in cluster.processes
        ]

    def __enter__(self) -> Bystander:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, cluster: MeasuredCluster, broker: int) -> None:
        with cluster.connect(broker) as connection:
            while not self._over.wait(BYSTANDER_PAUSE_S):
                asked = time.perf_counter()
                connection.call("ApiVersions", 0)
                self.longest_s = max(self.longest_s, time.perf_counter() - asked)


def long_pieces(cluster: MeasuredCluster) -> dict[str, int]:
    """Returns the number of pauses of Muster's event loops above 20 ms, by the kind of work that
    caused the pause. The result is empty for Kafka."""
    found: dict[str, int] = {}
    for address in cluster.http.values():
        with urlopen(f"http://{address}/metrics", timeout=30) as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith("muster_long_pieces_total{"):
                    name, count = line.split('"')[1], float(line.rpartition(" ")[2])
                    found[name] = found.get(name, 0) + int(count)
    return found


def until(condition: Callable[[], Found | None], within_s: float = 120) -> Found:
    """Calls ``condition`` every 5 ms, and returns its first value that is not None."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        with suppress(OSError):
            found = condition()
            if found is not None:
                return found
        time.sleep(0.005)
    raise SystemExit(f"not within {within_s} s")
