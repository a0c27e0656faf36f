"""Fixtures that run each test on Muster and on Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.brokers import Broker, KafkaBroker


@pytest.fixture(scope="session", params=["muster", "kafka"])
def any_kafka(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    make = Broker if request.param == "muster" else KafkaBroker
    folder = tmp_path_factory.mktemp(request.param) / "data"
    broker = make(folder, {"offsets.topic.num.partitions": "2"}).start()
    yield broker
    broker.kill()


@pytest.fixture
def at(any_kafka: Broker, monkeypatch: pytest.MonkeyPatch) -> Broker:
    """Sets MUSTER_BOOTSTRAP to the address of the broker, and returns the broker."""
    monkeypatch.setenv("MUSTER_BOOTSTRAP", any_kafka.bootstrap)
    return any_kafka
