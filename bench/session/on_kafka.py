"""The fixtures of a session on Apache Kafka: one broker for all tests, and a separate topic and
group for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from bench.session import figures
from bench.throughput import cpu_s
from tests.brokers import Broker, KafkaBroker

LIKE_MUSTERS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}


class Served:
    """The broker that all tests share. It has the names of the topic and of the group that one test
    uses."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self.bootstrap_servers = bootstrap
        self.orders = f"orders-{name}"
        self.group = f"billing-{name}"
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def create_topic(self, name: str, partitions: int = 1) -> None:
        self._admin.create_topics([NewTopic(name, partitions, 1)])[name].result()


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    broker = KafkaBroker(tmp_path_factory.mktemp("kafka") / "data", LIKE_MUSTERS).start()
    yield broker
    figures.write({"broker": cpu_s(broker.pid)})
    broker.stop()


@pytest.fixture
def broker(kafka: Broker, request: pytest.FixtureRequest) -> Served:
    return Served(kafka.bootstrap, request.node.name.translate(str.maketrans("[]", "--")))
