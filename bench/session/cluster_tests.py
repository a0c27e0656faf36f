"""The test of a session on clusters: no record is lost when the leader is killed."""

from __future__ import annotations

import os
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

WITHIN_S = 60
QUICK = {
    "topic.metadata.refresh.interval.ms": 100,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 50,
    "retry.backoff.ms": 10,
    "log_level": 0,
}
"""Client settings for short tests. With the default intervals, each test would take longer, on any
broker."""


@pytest.fixture(params=range(int(os.environ["TESTS"])))
def number(request: pytest.FixtureRequest) -> int:
    """The index of this repetition of the test, from 0."""
    count: int = request.param
    return count


@pytest.mark.usefixtures("number")
def test_no_record_is_lost_when_the_leader_is_killed(cluster: Any) -> None:
    cluster.create_topic(cluster.orders)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0, **QUICK})
    produce(producer, cluster.orders, b"tea")
    assert consumed(cluster, 1) == [b"tea"]
    with cluster.killed_leader():
        produce(producer, cluster.orders, b"coffee")
        assert consumed(cluster, 2) == [b"tea", b"coffee"]


def produce(producer: Producer, topic: str, value: bytes) -> None:
    producer.produce(topic, value)
    assert producer.flush(WITHIN_S) == 0


def consumed(cluster: Any, count: int) -> list[bytes | None]:
    """Lets a new member of the test's group read ``count`` records from the beginning, and returns
    their values."""
    worker = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": cluster.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "heartbeat.interval.ms": 50,
            "fetch.wait.max.ms": 50,
            **QUICK,
        }
    )
    worker.subscribe([cluster.orders])
    values = [message.value() for message in worker.consume(count, WITHIN_S)]
    worker.close()
    return values
