"""A cluster of three brokers in a test: leaders that move, brokers that are killed and restarted.

Each test has a real client that fails if the cluster does not do what the verb promises.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from musterd.testing import MusterCluster, MusterError, WaitedInVain
from tests.musterd.testing.clients import client, consumed, consuming, produce


@pytest.fixture(scope="module")
def started() -> Iterator[MusterCluster]:
    with MusterCluster() as cluster:
        yield cluster


@pytest.fixture
def cluster(started: MusterCluster) -> MusterCluster:
    started.reset()
    return started


def leaders(cluster: MusterCluster, topic: str) -> dict[int, set[int]]:
    """Returns the leader of each partition according to a client of each running broker."""
    found: dict[int, set[int]] = {}
    for broker in cluster.running:
        admin = AdminClient({"bootstrap.servers": cluster.broker(broker).bootstrap_servers})
        for partition in admin.list_topics(topic, timeout=30).topics[topic].partitions.values():
            found.setdefault(partition.id, set()).add(partition.leader)
    return found


def test_cluster_has_three_brokers_and_replicates_each_topic(cluster: MusterCluster) -> None:
    cluster.create_topic("orders", partitions=3)

    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    found = admin.list_topics("orders", timeout=30)

    assert sorted(found.brokers) == cluster.brokers == cluster.running == [1, 2, 3]
    assert cluster.controller in cluster.brokers
    partitions = found.topics["orders"].partitions.values()
    assert {each.leader for each in partitions} == {1, 2, 3}
    assert all(sorted(each.isrs) == [1, 2, 3] for each in partitions)


def test_killed_leader_is_replaced_and_keeps_acknowledged_records(cluster: MusterCluster) -> None:
    cluster.create_topic("orders")
    produce(cluster, "orders", "one")
    first = cluster.leader("orders")

    with cluster.kill(first):
        second = cluster.leader("orders")
        assert second != first
        assert leaders(cluster, "orders") == {0: {second}}
        produce(cluster, "orders", "two")
        assert consumed(cluster, "orders", 2) == [b"one", b"two"]
        assert cluster.partition("orders").isr == tuple(
            each for each in cluster.partition("orders").replicas if each != first
        )

    assert first in cluster.running
    cluster.wait_for_partition("orders").in_sync()
    assert cluster.wait_for_partition("orders").leader() == second
    assert [each.value for each in cluster.records("orders")] == [b"one", b"two"]


def test_killed_leader_is_replaced_after_its_session_timeout(cluster: MusterCluster) -> None:
    cluster.create_topic("orders")
    first = cluster.leader("orders")
    cluster.time.freeze()

    cluster.kill(first, expire=False)

    cluster.time.advance(milliseconds=5999)
    assert cluster.leader("orders") == first
    cluster.time.advance(milliseconds=1)
    second = cluster.wait_for_partition("orders").leader()
    assert second != first
    cluster.time.run()
    assert leaders(cluster, "orders") == {0: {second}}


def test_connected_brokers_keep_their_sessions_when_the_clock_advances(
    cluster: MusterCluster,
) -> None:
    cluster.create_topic("orders")
    before = cluster.partition("orders")

    cluster.time.advance(days=8)

    assert cluster.running == [1, 2, 3]
    assert cluster.partition("orders") == before
    produce(cluster, "orders", "one")
    assert cluster.partition("orders") == before


def test_consumer_continues_when_its_coordinator_is_killed(cluster: MusterCluster) -> None:
    cluster.create_topic("orders")
    with consuming(cluster, "billing"):
        produce(cluster, "orders", "one")
        cluster.wait_for("billing").caught_up()
        coordinator = cluster.coordinator("billing")
        assert coordinator is not None

        with cluster.kill(coordinator):
            assert cluster.coordinator("billing") not in (None, coordinator)
            produce(cluster, "orders", "two")
            cluster.wait_for("billing", timeout_s=30).committed("orders", at_least=2)


def test_stopped_broker_hands_over_its_leaderships(cluster: MusterCluster) -> None:
    cluster.create_topic("orders", partitions=3)
    produce(cluster, "orders", "one", partition=1)

    with cluster.stop(cluster.leader("orders", 1)) as down:
        found = leaders(cluster, "orders")
        assert all(len(each) == 1 and each.isdisjoint({down.broker}) for each in found.values())
        host, port = cluster.broker(down.broker).bootstrap_servers.split(":")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)))
        assert [each.value for each in cluster.records("orders", 1)] == [b"one"]

    socket.create_connection((host, int(port))).close()


def test_producer_has_no_error_during_a_rolling_restart(cluster: MusterCluster) -> None:
    cluster.create_topic("orders", partitions=3)
    failed: list[object] = []
    producer = Producer({**client(cluster, "producer"), "acks": "all", "linger.ms": 0})
    epochs = [each.leader_epoch for each in cluster.partitions("orders")]

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failed.append(error)

    for number in range(3):
        for partition in range(3):
            producer.produce("orders", b"%d" % number, partition=partition, callback=delivered)
        cluster.rolling_restart()
    assert producer.flush(30) == 0

    assert failed == []
    assert all(
        after.leader_epoch > before
        for after, before in zip(cluster.partitions("orders"), epochs, strict=True)
    )
    for partition in range(3):
        assert {each.value for each in cluster.records("orders", partition)} == {b"0", b"1", b"2"}


def test_reset_empties_the_cluster_and_starts_its_brokers(cluster: MusterCluster) -> None:
    cluster.create_topic("orders")
    produce(cluster, "orders", "one")
    where = cluster.bootstrap_servers, cluster.pid
    cluster.kill(2)
    cluster.time.freeze()

    cluster.reset()

    assert (cluster.bootstrap_servers, cluster.pid) == where
    assert cluster.running == [1, 2, 3]
    assert cluster.partitions() == []
    cluster.create_topic("orders")
    assert cluster.records("orders") == []
    produce(cluster, "orders", "two")
    assert consumed(cluster, "orders", 1) == [b"two"]


def test_produce_is_refused_when_fewer_replicas_than_min_insync_are_left(
    cluster: MusterCluster,
) -> None:
    cluster.create_topic("orders")
    leader = cluster.leader("orders")
    for broker in [each for each in cluster.brokers if each != leader]:
        cluster.kill(broker)
    assert cluster.partition("orders").isr == (leader,)

    errors: list[str] = []
    producer = Producer({**client(cluster, "producer"), "acks": "all", "retries": 0})
    producer.produce("orders", "one", callback=lambda error, _: errors.append(error.name()))
    producer.flush(30)
    assert errors == ["NOT_ENOUGH_REPLICAS"]

    producer = Producer({**client(cluster, "producer"), "acks": 1})
    producer.produce("orders", "two")
    assert producer.flush(30) == 0


def test_wait_for_a_partition_times_out_with_the_state_of_the_partition(
    cluster: MusterCluster,
) -> None:
    cluster.create_topic("orders")
    leader = cluster.leader("orders")
    other = next(each for each in cluster.brokers if each != leader)

    with pytest.raises(WaitedInVain) as waited:
        cluster.wait_for_partition("orders", timeout_s=0.1).leader(other)

    assert f"orders-0 is led by broker {other}, but orders-0: broker {leader} leads" in str(
        waited.value
    )


def test_fault_of_one_broker_affects_only_its_clients(cluster: MusterCluster) -> None:
    cluster.create_topic("orders")
    leader = cluster.leader("orders")
    other = next(each for each in cluster.brokers if each != leader)

    with cluster.broker(other).fail("Produce", "NOT_LEADER_OR_FOLLOWER") as fault:
        produce(cluster, "orders", "one")
        assert fault.hits == 0
    with cluster.broker(leader).fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=1) as fault:
        produce(cluster, "orders", "two")
        assert fault.hits == 1


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda cluster: cluster.kill(4), "broker 4 does not exist; the brokers are 1, 2, 3"),
        (lambda cluster: cluster.broker(4), "broker 4 does not exist; the brokers are 1, 2, 3"),
        (lambda cluster: cluster.leader("payments"), "payments-0 does not exist"),
        (lambda cluster: cluster.delete("payments"), "topic 'payments' does not exist"),
    ],
)
def test_unknown_broker_or_topic_is_named_in_the_error(
    call: object, sentence: str, cluster: MusterCluster
) -> None:
    assert callable(call)
    with pytest.raises(MusterError, match=sentence):
        call(cluster)


def test_deleted_topic_is_unknown_to_every_broker(cluster: MusterCluster) -> None:
    cluster.create_topics("orders", "payments")

    cluster.delete("orders")

    for broker in cluster.brokers:
        admin = AdminClient({"bootstrap.servers": cluster.broker(broker).bootstrap_servers})
        assert set(admin.list_topics(timeout=30).topics) == {"payments"}


def test_transaction_is_read_completely_when_its_coordinator_is_killed(
    cluster: MusterCluster,
) -> None:
    cluster.create_topic("orders")
    producer = Producer({**client(cluster, "producer"), "transactional.id": "billing"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("orders", "one")
    producer.flush(30)
    coordinator = cluster.coordinator(transactional_id="billing")
    assert coordinator is not None

    with cluster.kill(coordinator):
        assert cluster.coordinator(transactional_id="billing") != coordinator
        producer.produce("orders", "two")
        committed(producer)
        assert read_committed(cluster, "orders", 2) == [b"one", b"two"]


def committed(producer: Producer) -> None:
    """Commits the transaction, and repeats a commit whose error is retriable, as Kafka's
    documentation requires."""
    while True:
        try:
            producer.commit_transaction(30)
            return
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


def read_committed(cluster: MusterCluster, topic: str, count: int) -> list[bytes | None]:
    """Returns the values of the first ``count`` committed records of partition 0."""
    reader = Consumer(
        {**client(cluster, "reader"), "group.id": "reader", "isolation.level": "read_committed"}
    )
    reader.assign([TopicPartition(topic, 0, 0)])
    try:
        return [message.value() for message in reader.consume(count, timeout=30)]
    finally:
        reader.close()
