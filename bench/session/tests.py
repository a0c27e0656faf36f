"""The tests of a measured session: four kinds of tests that work on Muster and on Kafka."""

from __future__ import annotations

import os
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

pytestmark = pytest.mark.usefixtures("number")
QUICK = {"heartbeat.interval.ms": 50, "fetch.wait.max.ms": 50}
"""Client settings for short tests. The defaults, 3 s and 0.5 s, would delay each test on any
broker."""


@pytest.fixture(params=range(int(os.environ["TESTS"]) // 4))
def number(request: pytest.FixtureRequest) -> int:
    """The number of the repetition of a test, from 0. Every test runs TESTS / 4 times."""
    count: int = request.param
    return count


def worker_of(broker: Any, **settings: object) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": broker.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **QUICK,
            **settings,
        }
    )


def fill(broker: Any, values: list[bytes]) -> None:
    """Creates the topic with two partitions, and produces the values to these partitions
    alternately."""
    broker.create_topic(broker.orders, partitions=2)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number, value in enumerate(values):
        producer.produce(broker.orders, value, partition=number % 2)
    assert producer.flush(10) == 0


def take(consumer: Consumer, count: int) -> list[Message]:
    taken = []
    while len(taken) < count:
        message = consumer.poll(10)
        assert message is not None, "no record arrived within 10 s"
        assert message.error() is None, message.error()
        taken.append(message)
    return taken


def orders_of(count: int) -> list[bytes]:
    return [f"order-{number}".encode() for number in range(count)]


def test_new_worker_continues_after_the_offsets_that_the_closed_worker_committed(
    broker: Any,
) -> None:
    fill(broker, orders_of(10))
    seen = []
    for count in (4, 6):
        worker = worker_of(broker)
        worker.subscribe([broker.orders])
        for message in take(worker, count):
            seen.append(message.value())
            worker.commit(message, asynchronous=False)
        worker.close()
    assert sorted(seen) == orders_of(10)


def test_record_that_is_not_a_number_is_produced_to_the_dead_letter_topic(broker: Any) -> None:
    fill(broker, [b"1", b"2", b"poison", b"4"])
    broker.create_topic(f"{broker.orders}.dead")
    dead = Producer({"bootstrap.servers": broker.bootstrap_servers})
    worker = worker_of(broker)
    worker.subscribe([broker.orders])
    billed = []
    for message in take(worker, 4):
        try:
            billed.append(int(message.value()))
        except ValueError:
            dead.produce(f"{broker.orders}.dead", message.value())
            dead.flush()
        worker.commit(message, asynchronous=False)
    worker.close()
    assert sorted(billed) == [1, 2, 4]
    reader = worker_of(broker)
    reader.assign([TopicPartition(f"{broker.orders}.dead", 0, 0)])
    assert [message.value() for message in take(reader, 1)] == [b"poison"]
    reader.close()


def test_offsets_of_billed_records_are_committed_before_partitions_are_revoked(broker: Any) -> None:
    fill(broker, orders_of(10))
    billed: list[bytes] = []
    done: dict[tuple[str, int], int] = {}

    def give_up(consumer: Consumer, _: list[TopicPartition]) -> None:
        offsets = [TopicPartition(*key, offset) for key, offset in done.items()]
        if offsets:
            consumer.commit(offsets=offsets, asynchronous=False)
        done.clear()

    first, second = worker_of(broker), worker_of(broker)
    first.subscribe([broker.orders], on_revoke=give_up)
    for message in take(first, 7):
        billed.append(message.value())
        done[message.topic(), message.partition()] = message.offset() + 1
    second.subscribe([broker.orders])
    while len(billed) < 10:
        for worker in (first, second):
            message = worker.poll(0.02)
            if message is not None:
                billed.append(message.value())
    assert sorted(billed) == orders_of(10)
    for worker in (first, second):
        worker.close()


def test_orders_of_an_aborted_transaction_are_not_billed(broker: Any) -> None:
    broker.create_topic(broker.orders, partitions=2)
    settings = {"transactional.id": f"shop-{broker.group}"}
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **settings})
    producer.init_transactions()
    for value, end in ((b"no", producer.abort_transaction), (b"yes", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(broker.orders, value, partition=0)
        producer.flush()
        end()
    worker = worker_of(broker, **{"isolation.level": "read_committed"})
    worker.subscribe([broker.orders])
    assert [message.value() for message in take(worker, 1)] == [b"yes"]
    worker.close()
