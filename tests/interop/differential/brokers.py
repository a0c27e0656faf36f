"""The three brokers of a differential run, started side by side.

Kafka 3.9.2 runs its old coordinator, in KRaft mode: it is the same coordinator as in ZooKeeper
mode, save for version 0 of OffsetCommit and OffsetFetch, which are not compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests import java
from tests.brokers import Broker, KafkaBroker, make_broker
from tests.interop.differential.wire import Target

COMMON = {
    "auto.create.topics.enable": "false",
    "group.max.session.timeout.ms": "120000",
    "offsets.topic.num.partitions": "4",
}
_ONE_BY_ONE = {"num.io.threads": "1", "num.network.threads": "1"}
"""Kafka handles requests of several connections in the order in which they came."""
_COORDINATOR = {
    java.KAFKA_NEW: {"group.coordinator.append.linger.ms": "0"},
    java.KAFKA_LAST_TO_SERVE_OLD_CLIENTS: {
        "group.coordinator.new.enable": "false",
        "group.coordinator.rebalance.protocols": "classic",
    },
}


@contextmanager
def three_brokers(folder: Path, settings: Mapping[str, str]) -> Iterator[dict[str, Broker]]:
    """The broker under test first, then the two Kafkas; killed at the end."""
    shared = {**COMMON, **settings}
    brokers: dict[str, Broker] = {}
    tested = make_broker(folder / "tested" / "data", shared)
    if isinstance(tested, KafkaBroker):  # BROKER=kafka: the tester is tested
        tested.settings |= {**_ONE_BY_ONE, **_COORDINATOR[tested.version]}
        brokers["kafka under test"] = tested
    else:
        brokers["muster"] = tested
    for version, own in _COORDINATOR.items():
        data = folder / version / "data"
        brokers[version] = KafkaBroker(data, {**shared, **_ONE_BY_ONE, **own}, version)
    try:
        with ThreadPoolExecutor() as pool:
            for started in [pool.submit(broker.start) for broker in brokers.values()]:
                started.result()
        yield brokers
    finally:
        for broker in brokers.values():
            broker.kill()


def targets(brokers: Mapping[str, Broker]) -> list[Target]:
    """The brokers as a run wants them."""
    return [Target(name, broker.port) for name, broker in brokers.items()]
