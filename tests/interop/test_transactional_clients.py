"""The transactional producers of six clients: Java 0.11, 2.8 and 4.3.1, and three Python libraries.
With BROKER=kafka the tests run on Apache Kafka 4.3.1, and pass too."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from tests import java
from tests.broker.transactional_calls import added, begin, end, send
from tests.brokers import KIND, Broker
from tests.interop.cluster import Cluster
from tests.interop.committed_readers import PYTHON, seen, seen_by
from tests.interop.transactional_producers import (
    JAVA,
    ClientError,
    JavaProgram,
    Transactional,
    producers,
)
from tests.waiting import until
from tests.wire import Wire

pytestmark = pytest.mark.interop
CLIENTS = (*JAVA, *PYTHON)


def committed_offset(broker: Broker, group: str, topic: str) -> int:
    """Returns the committed offset of the group in partition 0. The request sets require_stable, as
    read_committed consumers do."""
    wanted = [{"name": topic, "partition_indexes": [0]}]
    answer = Cluster(broker.bootstrap).call(
        "OffsetFetch", 7, group_id=group, topics=wanted, require_stable=True
    )
    partition = answer["topics"][0]["partitions"][0]
    assert partition["error_code"] == 0, partition
    offset: int = partition["committed_offset"]
    return offset


@pytest.mark.parametrize("client", CLIENTS)
def test_read_committed_consumers_see_only_complete_transactions(
    broker: Broker, name: str, client: str
) -> None:
    topic, group = name, f"{name}-group"
    Cluster(broker.bootstrap).create_topic(topic, 2)
    with producers(client, broker.bootstrap) as make:
        producer = make(name)
        producer.init()
        for values, ends in (
            (["a", "b"], "commit"),
            (["lost", "lost too"], "abort"),
            (["c"], "commit"),
        ):
            producer.begin()
            for number, value in enumerate(values):
                producer.send(topic, number % 2, value)
            producer.offset(group, topic, 0, 10 * len(value))
            if ends == "commit":
                producer.commit()
            else:
                producer.abort()
        producer.begin()
        producer.send(topic, 0, "open")

        assert seen(broker.bootstrap, topic, 0) == ["a", "c"]
        assert seen(broker.bootstrap, topic, 1) == ["b"]
        assert seen(broker.bootstrap, topic, 0, committed=False) == ["a", "lost", "c", "open"]
        until(
            "the offset of the last commit is there",
            lambda: committed_offset(broker, group, topic) == 10,
        )
        producer.abort()


@pytest.mark.parametrize("client", CLIENTS)
def test_zombie_producer_is_fenced_and_its_transaction_aborted(
    broker: Broker, name: str, client: str
) -> None:
    Cluster(broker.bootstrap).create_topic(name, 1)
    with producers(client, broker.bootstrap) as make:
        zombie, heir = make(name), make(name)
        zombie.init()
        zombie.begin()
        zombie.send(name, 0, "before")
        zombie.offset(f"{name}-group", name, 0, 99)

        heir.init()
        heir.begin()
        heir.send(name, 0, "heir")
        heir.commit()  # before kafka-python's zombie takes the id over again
        with pytest.raises(ClientError):
            _go_on(zombie, name)

    assert seen(broker.bootstrap, name) == ["heir"]
    assert committed_offset(broker, f"{name}-group", name) == -1
    everything = seen(broker.bootstrap, name, committed=False)
    assert everything == ["before", "heir"]


@pytest.mark.proves("transactions 21")
@pytest.mark.parametrize("reader", PYTHON)
def test_overlapping_transactions_are_filtered_by_read_committed_consumers(
    broker: Broker, name: str, reader: str
) -> None:
    """The log has an ABORT marker of a transaction without records, then two overlapping
    transactions, of which one is aborted, and then an open transaction."""
    Cluster(broker.bootstrap).create_topic(name, 1)
    with Wire(int(broker.bootstrap.rpartition(":")[2])) as wire:
        nothing = begin(wire, f"{name}-0")
        added(wire, f"{name}-0", nothing, [(name, [0])])
        assert end(wire, f"{name}-0", nothing, committed=False)[0] == 0
        one, two = begin(wire, f"{name}-1"), begin(wire, f"{name}-2")
        for each, producer in ((f"{name}-1", one), (f"{name}-2", two)):
            added(wire, each, producer, [(name, [0])])
        send(wire, f"{name}-1", one, name, 0, 0, 11, b"a", b"b")
        send(wire, f"{name}-2", two, name, 0, 0, 11, b"lost")
        send(wire, f"{name}-1", one, name, 0, 2, 11, b"c")
        send(wire, f"{name}-2", two, name, 0, 1, 11, b"lost too")
        assert end(wire, f"{name}-1", one)[0] == 0
        code, again = end(wire, f"{name}-2", two, committed=False)
        assert code == 0
        added(wire, f"{name}-2", again, [(name, [0])])
        send(wire, f"{name}-2", again, name, 0, 0, 11, b"open")

        # There are five records and three markers: the position is after the last marker.
        assert seen_by(reader, broker.bootstrap, name, 8) == ["a", "b", "c"]
        assert end(wire, f"{name}-2", again)[0] == 0
        assert seen_by(reader, broker.bootstrap, name, 10) == ["a", "b", "c", "open"]


def _go_on(producer: Transactional, topic: str) -> None:
    """Produces a record and commits. Some clients learn of an abort at the produce call, others at
    the commit."""
    producer.send(topic, 0, "after")
    producer.commit()


@pytest.mark.parametrize("client", CLIENTS)
def test_timed_out_transaction_is_aborted_and_its_producer_gets_an_error(
    brokers: Callable[..., Broker], name: str, client: str
) -> None:
    sweep = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}
    broker = brokers(sweep)
    Cluster(broker.bootstrap).create_topic(name, 1)
    with producers(client, broker.bootstrap) as make:
        late = make(f"{name}-{uuid.uuid4().hex[:6]}", 6000)
        late.init()
        late.begin()
        late.send(name, 0, "late")
        until(
            "readers go on",
            lambda: _last_stable(broker, name) == 2,
        )
        with pytest.raises(ClientError):
            late.commit()
    assert seen(broker.bootstrap, name) == []


def _last_stable(broker: Broker, topic: str) -> int:
    wanted = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}]
    answer = Cluster(broker.bootstrap).call(
        "Fetch",
        11,
        max_wait_ms=0,
        min_bytes=0,
        isolation_level=1,
        session_epoch=-1,
        topics=[{"topic": topic, "partitions": wanted}],
    )
    offset: int = answer["responses"][0]["partitions"][0]["last_stable_offset"]
    return offset


# -- the transaction version that a client follows


@pytest.mark.skipif(KIND == "kafka", reason="the setting is Muster's own")
@pytest.mark.parametrize("level", [0, 1, 2])
def test_java_producer_uses_the_transaction_version_that_the_broker_advertises(
    brokers: Callable[..., Broker], name: str, level: int
) -> None:
    """With version 2, each end of a transaction increments the epoch of the producer (KIP-890)."""
    broker = brokers({"transaction.version": str(level)})
    Cluster(broker.bootstrap).create_topic(name, 1)
    with JavaProgram(java.KAFKA_NEW, broker.bootstrap) as program:
        producer = program.producer(name)
        producer.init()
        epochs = []
        for value in ("a", "b", "c"):
            producer.begin()
            producer.send(name, 0, value)
            epochs.append(producer.state()[1])
            producer.commit()

    assert epochs == ([0, 1, 2] if level == 2 else [0, 0, 0])
    assert seen(broker.bootstrap, name) == ["a", "b", "c"]


# -- a job that continues the transaction of a crashed process


@pytest.mark.parametrize("client", JAVA[1:])
@pytest.mark.parametrize("restart", ["", "stop", "kill"])
def test_new_process_commits_the_transaction_of_a_crashed_process(
    brokers: Callable[..., Broker], name: str, client: str, restart: str
) -> None:
    """Like Flink's sink, the new process reads the producer id and epoch from a checkpoint and
    sends no InitProducerId."""
    broker = brokers()
    Cluster(broker.bootstrap).create_topic(name, 1)
    with JavaProgram(client, broker.bootstrap) as job:
        producer = job.producer(name)
        producer.init()
        producer.begin()
        producer.send(name, 0, "prepared")
        checkpoint = producer.state()
    if restart:
        getattr(broker, restart)()
        broker.start()
    assert seen(broker.bootstrap, name) == []

    for _ in range(2):  # the second process does not know that the first has committed
        with JavaProgram(client, broker.bootstrap) as heir:
            again = heir.producer(name)
            again.resume(*checkpoint)
            again.commit()

    assert seen(broker.bootstrap, name) == ["prepared"]
