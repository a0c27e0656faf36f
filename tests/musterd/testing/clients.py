"""Real clients for the tests of `musterd.testing`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from musterd.testing import Muster, MusterCluster

Started = Muster | MusterCluster
"""A running broker or cluster."""


def produce(broker: Started, topic: str, *values: str | None, partition: int = -1) -> None:
    """Produces one record per value, and waits for the acknowledgement of all records."""
    producer = Producer(client(broker, "producer"))
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(30) == 0


def consumed(broker: Started, topic: str, count: int) -> list[bytes | None]:
    """Returns the values of the first ``count`` records of partition 0."""
    consumer = Consumer({**client(broker, "reader"), "group.id": "reader"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        found = consumer.consume(count, timeout=30)
        return [message.value() for message in found]
    finally:
        consumer.close()


def client(broker: Started, name: str) -> dict[str, Any]:
    """Returns settings of a client with the client id ``name``, short backoffs and short refresh
    intervals."""
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "client.id": name,
        "topic.metadata.refresh.interval.ms": 500,
        "reconnect.backoff.ms": 10,
        "reconnect.backoff.max.ms": 50,
        "retry.backoff.ms": 10,
        "log_level": 0,
    }


@contextmanager
def consuming(
    broker: Started,
    group: str,
    topic: str = "orders",
    name: str = "",
    **settings: Any,
) -> Iterator[Consumer]:
    """Yields a consumer in a group. A thread polls the consumer. The consumer commits
    automatically."""
    given = {
        key if key.endswith("_cb") else key.replace("_", "."): value
        for key, value in settings.items()
    }
    defaults = {
        "group.id": group, "auto.offset.reset": "earliest", "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 100, "auto.commit.interval.ms": 50, "fetch.wait.max.ms": 50,
    }  # fmt: skip
    consumer = Consumer({**client(broker, name or group), **defaults, **given})
    consumer.subscribe([topic])
    ended = threading.Event()

    def poll() -> None:
        while not ended.is_set():
            consumer.poll(0.02)

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield consumer
    finally:
        ended.set()
        thread.join()
        consumer.close()
