"""Tests of `MusterCluster` with real clients: leaders that move, and brokers that are killed,
paused, isolated and restarted."""

from __future__ import annotations

import socket
import time
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
    """Returns the leader of each partition as each running broker reports it in its metadata; a set
    with two ids shows disagreement."""
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


def test_new_leader_has_the_acknowledged_records_of_a_killed_leader(cluster: MusterCluster) -> None:
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


def test_kill_does_not_wait_for_the_parked_fetch_of_a_follower(cluster: MusterCluster) -> None:
    def kill_s() -> float:
        cluster.reset()
        cluster.create_topic("orders")
        cluster.create_topic("payments", partitions=3)
        produce(cluster, "orders", "one")
        leader, following, _ = cluster.partition("orders").replicas
        with cluster.isolate(leader, from_=["clients"]):
            pass  # the first fault of a test creates the internal topics
        assert {each.leader for each in cluster.partitions("payments")} == set(cluster.brokers)
        began = time.monotonic()
        cluster.kill(leader)
        seconds = time.monotonic() - began
        assert cluster.leader("orders") == following
        return seconds

    assert min(kill_s() for _ in range(3)) < 0.3


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


def test_partition_has_no_leader_when_all_brokers_are_killed(cluster: MusterCluster) -> None:
    cluster.create_topic("orders")
    assert cluster.coordinator("billing") is None
    for broker in cluster.brokers:
        cluster.kill(broker)

    assert cluster.partition("orders").leader is None
    assert [each.leader for each in cluster.partitions("orders")] == [None]
    with pytest.raises(MusterError, match=r"orders-0: no broker leads, .*; running brokers: none"):
        cluster.leader("orders")
    with pytest.raises(MusterError, match="__consumer_offsets-0 has no leader at the moment"):
        cluster.coordinator("billing")

    last = cluster.partition("orders").isr[0]
    cluster.restart(last)
    assert cluster.wait_for_partition("orders").leader() == last


def test_connected_brokers_keep_their_sessions_when_the_clock_advances(
    cluster: MusterCluster,
) -> None:
    cluster.create_topic("orders")
    before = cluster.partition("orders")
    lines = len(cluster.lines)

    cluster.time.advance(days=8)

    assert cluster.running == [1, 2, 3]
    assert cluster.partition("orders") == before
    produce(cluster, "orders", "one")
    assert cluster.partition("orders") == before
    assert [line for line in cluster.lines[lines:] if "did not answer" in line] == []


def test_follower_fetches_again_after_isolation_while_the_clock_is_frozen(
    cluster: MusterCluster,
) -> None:
    cluster.create_topic("orders")
    leader = cluster.leader("orders")
    follower = next(each for each in cluster.brokers if each != leader)
    cluster.time.freeze()

    with cluster.isolate(follower, from_=[leader]):
        pass
    produce(cluster, "orders", "one")

    assert set(cluster.partition("orders").isr) == {1, 2, 3}


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


@pytest.mark.campaign
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


def test_timeout_error_of_wait_for_partition_contains_the_partition_state(
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


def test_topic_is_created_while_the_disk_of_one_broker_is_full(cluster: MusterCluster) -> None:
    with cluster.broker(2).disk_full():
        cluster.create_topic("orders", partitions=6)
    for partition in range(6):
        assert cluster.wait_for_partition("orders", partition).leader() is not None


def test_cluster_without_brokers_is_refused() -> None:
    with pytest.raises(ValueError, match="a cluster has at least one broker, not 0"):
        MusterCluster(brokers=0)


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
    """Commits the transaction. Repeats the commit while its error is retriable, as Kafka's
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


def test_leader_moves_to_the_chosen_broker(cluster: MusterCluster) -> None:
    cluster.create_topic("orders")
    produce(cluster, "orders", "one")
    wanted = next(each for each in cluster.brokers if each != cluster.leader("orders"))

    assert cluster.move_leader("orders", to=wanted) == wanted

    assert leaders(cluster, "orders") == {0: {wanted}}
    assert cluster.partition("orders").replicas[0] == wanted
    produce(cluster, "orders", "two")
    assert consumed(cluster, "orders", 2) == [b"one", b"two"]
    assert cluster.move_leader("orders") != wanted
    with (
        cluster.shrink_isr("orders", 0, wanted),
        pytest.raises(MusterError, match=f"broker {wanted} can't lead orders-0: it is not in the"),
    ):
        cluster.move_leader("orders", to=wanted)


def test_consumer_continues_when_its_coordinator_moves(cluster: MusterCluster) -> None:
    cluster.create_topic("orders")
    with pytest.raises(MusterError, match="no coordinator exists yet"):
        cluster.move_coordinator("billing")
    with consuming(cluster, "billing"):
        produce(cluster, "orders", "one")
        cluster.wait_for("billing").caught_up()
        before = cluster.coordinator("billing")

        moved = cluster.move_coordinator("billing")

        assert moved == cluster.coordinator("billing") != before
        produce(cluster, "orders", "two")
        cluster.wait_for("billing", timeout_s=30).committed("orders", at_least=2)


def test_isr_shrinks_while_followers_do_not_fetch(cluster: MusterCluster) -> None:
    cluster.create_topic("orders")
    leader = cluster.leader("orders")
    follower = next(each for each in cluster.brokers if each != leader)

    with cluster.shrink_isr("orders", 0, follower):
        assert follower not in cluster.partition("orders").isr
        assert len(cluster.partition("orders").isr) == 2
        produce(cluster, "orders", "one")
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        found = admin.list_topics("orders", timeout=30).topics["orders"].partitions[0]
        assert follower not in found.isrs
    cluster.wait_for_partition("orders").in_sync()

    with cluster.shrink_isr("orders"):
        assert cluster.partition("orders").isr == (leader,)
        errors: list[str] = []
        producer = Producer({**client(cluster, "producer"), "acks": "all", "retries": 0})
        producer.produce("orders", "two", callback=lambda error, _: errors.append(error.name()))
        producer.flush(30)
        assert errors == ["NOT_ENOUGH_REPLICAS"]


def test_unclean_election_loses_records_that_only_the_old_leader_has(
    cluster: MusterCluster,
) -> None:
    cluster.create_topic("orders")
    produce(cluster, "orders", "one")
    leader = cluster.leader("orders")
    with pytest.raises(MusterError, match=f"orders-0 is led by broker {leader}"):
        cluster.elect_unclean("orders")
    with cluster.shrink_isr("orders"):
        producer = Producer({**client(cluster, "producer"), "acks": 1})
        producer.produce("orders", "two")
        assert producer.flush(30) == 0

        cluster.kill(leader)
        assert cluster.partition("orders").leader is None
        after = cluster.elect_unclean("orders")

        assert after != leader
        others = [each for each in cluster.brokers if each != leader]
        cluster.wait_for_partition("orders").in_sync(*others)
        assert consumed(cluster, "orders", 1) == [b"one"]
    cluster.restart(leader)
    cluster.wait_for_partition("orders").in_sync()
    assert consumed(cluster, "orders", 1) == [b"one"]
    assert [each.value for each in cluster.records("orders")] == [b"one"]


def test_leader_isolated_from_the_registry_is_replaced_after_its_session_timeout(
    cluster: MusterCluster,
) -> None:
    cluster.create_topic("orders")
    first = cluster.leader("orders")

    with cluster.isolate(first, from_=["registry", "brokers"]):
        assert cluster.leader("orders") == first
        cluster.time.advance(seconds=6)
        second = cluster.wait_for_partition("orders").leader()
        assert second != first
        errors: list[str] = []
        old = {
            **client(cluster, "producer"),
            "bootstrap.servers": cluster.broker(second).bootstrap_servers,
            "acks": "all",
        }
        producer = Producer(old)
        producer.produce("orders", "one", callback=lambda error, _: errors.append(error))
        assert producer.flush(30) == 0
        assert errors == [None]

    cluster.wait_for_partition("orders").in_sync()
    assert leaders(cluster, "orders") == {0: {second}}
    assert consumed(cluster, "orders", 1) == [b"one"]


def test_client_gets_no_response_from_a_broker_isolated_from_clients(
    cluster: MusterCluster,
) -> None:
    cluster.create_topic("orders")
    leader = cluster.leader("orders")
    errors: list[str] = []
    producer = Producer({**client(cluster, "producer"), "message.timeout.ms": 500})

    with cluster.isolate(leader, from_=["clients"]) as isolated:
        assert cluster.partition("orders").isr == cluster.partition("orders").replicas
        producer.produce("orders", "one", callback=lambda error, _: errors.append(error.name()))
        producer.flush(30)
        assert errors == ["_MSG_TIMED_OUT"]
        assert isolated.hits > 0

    produce(cluster, "orders", "two")
    assert cluster.leader("orders") == leader


def test_follower_isolated_from_the_leader_leaves_the_isr_when_it_lags(
    cluster: MusterCluster,
) -> None:
    cluster.create_topic("orders")
    leader = cluster.leader("orders")
    follower = next(each for each in cluster.brokers if each not in (leader, cluster.controller))

    with cluster.isolate(follower, from_=[leader]):
        producer = Producer({**client(cluster, "producer"), "acks": 1})
        producer.produce("orders", "one")
        assert producer.flush(30) == 0
        cluster.time.advance(seconds=29)
        assert follower in cluster.partition("orders").isr
        # The leader checks every 15 s. A check may come just before the follower has lagged for
        # 30 s, or at the end of the advance.
        cluster.time.advance(seconds=31)
        cluster.wait_for_partition("orders").in_sync(
            *(each for each in cluster.brokers if each != follower)
        )
        left = [each for each in cluster.why("orders") if each.what == "isr"]
        assert {each.seen_by for each in left} == {leader, cluster.controller}
        assert all(f"broker {follower}" in each.sentence for each in left)

    cluster.wait_for_partition("orders").in_sync()


@pytest.mark.parametrize("chosen", ["follower", "clients"])
def test_broker_is_isolated_from_one_peer_that_is_not_in_a_list(
    chosen: str, cluster: MusterCluster
) -> None:
    cluster.create_topic("orders")
    leader = cluster.leader("orders")
    follower = next(each for each in cluster.brokers if each != leader)

    with cluster.isolate(leader, from_=follower if chosen == "follower" else chosen):
        [fault] = cluster._ask("GET", "/test/cluster/faults")["faults"]

    assert fault["from"] == [follower if chosen == "follower" else chosen]


def test_broker_that_does_not_coordinate_a_group_names_the_request_that_finds_its_coordinator(
    cluster: MusterCluster,
) -> None:
    cluster.create_topic("orders")
    with consuming(cluster, "billing"):
        coordinator = cluster.wait_for("billing").stable() and cluster.coordinator("billing")
    other = next(each for each in cluster.brokers if each != coordinator)

    with pytest.raises(
        MusterError, match="this broker does not coordinate 'billing'; GET /test/co"
    ):
        cluster.broker(other).loading("billing")


def test_method_why_names_the_reason_of_each_leader_change(cluster: MusterCluster) -> None:
    cluster.create_topic("orders")
    first = cluster.leader("orders")

    cluster.kill(first)

    found = [each for each in cluster.why("orders") if each.what == "leader"]
    # A controller that was elected at the same time says "was down when this controller was
    # elected" in place of "is no longer registered".
    [moved] = [each for each in found if f"the leader, broker {first}, " in each.sentence]
    assert moved.leader == cluster.leader("orders")
    assert moved.isr == cluster.partition("orders").isr


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda cluster: cluster.isolate(2, from_=["moon"]), "from: unknown side 'moon'; choose"),
        (lambda cluster: cluster.isolate(1, from_=[]), "from is empty; choose clients, brokers,"),
        (
            lambda cluster: cluster.isolate(1, from_=[2, 1]),
            "broker 1 can't be isolated from itself",
        ),
        (lambda cluster: cluster.isolate(1, from_="client"), "from: unknown side 'client'; choose"),
        (lambda cluster: cluster.isolate(7), "broker 7 does not exist"),
        (lambda cluster: cluster.move_leader("orders"), "orders-0 does not exist"),
        (lambda cluster: cluster.shrink_isr("orders"), "orders-0 does not exist"),
        (lambda cluster: cluster.broker(2).expire("billing"), "only a single test broker has it"),
        (lambda cluster: cluster.broker(2).fence("billing"), "only a single test broker has it"),
        (
            lambda cluster: cluster.broker(2).move_coordinator("billing"),
            "use `MusterCluster.move_coordinator`",
        ),
    ],
)
def test_wrong_arguments_of_a_cluster_method_are_named_in_the_error(
    call: object, sentence: str, cluster: MusterCluster
) -> None:
    assert callable(call)
    with pytest.raises(MusterError, match=sentence):
        call(cluster)


def test_paused_leader_is_replaced_and_truncates_its_log_when_it_continues(
    cluster: MusterCluster,
) -> None:
    cluster.create_topic("orders")
    first = cluster.leader("orders")
    produce(cluster, "orders", "one")
    old = {**client(cluster, "old"), "acks": 1, "message.timeout.ms": 60_000}
    producer = Producer(old)

    with cluster.pause(first):
        assert cluster.leader("orders") == first
        producer.produce("orders", "late")
        producer.flush(0.2)
        cluster.time.advance(seconds=6)
        second = cluster.wait_for_partition("orders").leader()
        assert second != first
        other = {
            **client(cluster, "new"),
            "bootstrap.servers": cluster.broker(second).bootstrap_servers,
        }
        newer = Producer(other)
        newer.produce("orders", "two")
        assert newer.flush(30) == 0

    cluster.wait_for_partition("orders").in_sync()
    assert producer.flush(30) == 0
    # Each replica has this record once it is acknowledged, so it has every record before it. A
    # record that acks=1 acknowledged may still be after the high watermark.
    newer.produce("orders", "three")
    assert newer.flush(30) == 0
    found = [each.value for each in cluster.records("orders")]
    assert found[:2] == [b"one", b"two"]
    assert leaders(cluster, "orders") == {0: {second}}
    cluster.move_leader("orders", to=first)
    assert [each.value for each in cluster.records("orders")] == found


def test_cluster_changes_fail_immediately_while_the_controller_is_paused(
    cluster: MusterCluster,
) -> None:
    cluster.create_topic("orders")
    controller = cluster.controller
    assert controller is not None

    with cluster.pause(controller):
        expected = f"the controller, broker {controller}, is paused or can't reach the registry"
        with pytest.raises(MusterError, match=expected):
            cluster.move_leader("orders")
        with pytest.raises(MusterError, match=expected):
            cluster.create_topic("bills")
        cluster.time.advance(seconds=6)
        assert cluster.wait_for_partition("orders").leader() != controller
        assert cluster.controller not in (None, controller)
        cluster.create_topic("bills", replication_factor=2)


def test_method_shrink_isr_fails_at_once_while_the_leader_is_isolated_from_the_registry(
    cluster: MusterCluster,
) -> None:
    cluster.create_topic("orders")
    leader = cluster.leader("orders")

    with (
        cluster.isolate(leader, from_=["registry"]),
        pytest.raises(MusterError, match=f"broker {leader}, the leader of orders-0, is paused"),
    ):
        cluster.shrink_isr("orders")

    assert set(cluster.partition("orders").isr) == {1, 2, 3}


def test_broker_paused_for_less_than_its_session_keeps_its_leaderships(
    cluster: MusterCluster,
) -> None:
    cluster.create_topic("orders")
    leader = cluster.leader("orders")
    producer = Producer(client(cluster, "producer"))

    with cluster.pause(leader):
        producer.produce("orders", "one")
        assert producer.flush(0.3) == 1
        cluster.time.advance(seconds=5)

    assert producer.flush(30) == 0
    cluster.time.advance(seconds=6)
    assert cluster.leader("orders") == leader
    assert consumed(cluster, "orders", 1) == [b"one"]


def test_group_member_keeps_its_session_while_the_coordinator_is_paused(
    cluster: MusterCluster,
) -> None:
    cluster.create_topic("orders")
    with consuming(cluster, "billing"):
        produce(cluster, "orders", "one")
        cluster.wait_for("billing").caught_up()
        generation = cluster.wait_for("billing").stable().generation_id
        coordinator = cluster.coordinator("billing")
        assert coordinator is not None

        with cluster.pause(coordinator):
            cluster.time.advance(seconds=5)

        produce(cluster, "orders", "two")
        cluster.wait_for("billing", timeout_s=30).committed("orders", at_least=2)
        assert cluster.wait_for("billing").stable().generation_id == generation
