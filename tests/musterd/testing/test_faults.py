"""Tests of injected faults: their effect on real clients, and when they end."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from musterd.testing import Muster, MusterError
from tests.musterd.testing.clients import client, consumed, consuming, produce
from tests.waiting import until

LIBRDKAFKA_S = 120.0
"""The time in seconds that a test waits for a commit. librdkafka 2.16 retries a commit for 45 s if
NOT_COORDINATOR arrives while a Fetch request waits."""


def committing(broker: Muster) -> Consumer:
    """Returns a consumer that commits offsets of the group `billing` without joining the group."""
    return Consumer({**client(broker, "committer"), "group.id": "billing"})


def commit(consumer: Consumer, offset: int) -> None:
    consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)


def error_of(consumer: Consumer, offset: int) -> int:
    with pytest.raises(KafkaException) as raised:
        commit(consumer, offset)
    code: int = raised.value.args[0].code()
    return code


def test_method_fail_makes_the_given_number_of_requests_fail(muster: Muster) -> None:
    muster.create_topic("orders")
    consumer = committing(muster)
    fault = muster.fail("OffsetCommit", "GROUP_AUTHORIZATION_FAILED", times=2, group="billing")

    assert error_of(consumer, 1) == KafkaError.GROUP_AUTHORIZATION_FAILED
    assert error_of(consumer, 2) == KafkaError.GROUP_AUTHORIZATION_FAILED
    commit(consumer, 3)

    assert fault.hits == 2
    [there] = consumer.committed([TopicPartition("orders", 0)], timeout=30)
    assert there.offset == 3
    consumer.close()


def test_fault_ends_with_its_block_or_when_end_or_reset_is_called(muster: Muster) -> None:
    muster.create_topic("orders")
    consumer = committing(muster)
    with muster.fail("offsetcommit", "group_authorization_failed") as fault:
        assert error_of(consumer, 1) == KafkaError.GROUP_AUTHORIZATION_FAILED
    commit(consumer, 1)
    assert fault.hits == 1
    fault.end()  # the fault has ended already: no error

    fault = muster.fail("OffsetCommit", "GROUP_AUTHORIZATION_FAILED")
    fault.end()
    commit(consumer, 2)

    fault = muster.fail("OffsetCommit", "GROUP_AUTHORIZATION_FAILED")
    muster.reset()
    muster.create_topic("orders")
    commit(consumer, 3)
    fault.end()
    consumer.close()


def test_exception_raised_in_a_fault_block_is_not_replaced_when_the_broker_is_closed() -> None:
    def story(broker: Muster) -> None:
        with broker.fail("Fetch", "NOT_LEADER_OR_FOLLOWER"):
            broker.close()
            raise ZeroDivisionError

    with Muster() as broker, pytest.raises(ZeroDivisionError):
        story(broker)


def test_error_about_an_unknown_api_or_error_name_has_a_suggestion(
    muster: Muster,
) -> None:
    with pytest.raises(MusterError, match="OffsetCommit"):
        muster.fail("OffsetComit", "NOT_COORDINATOR")
    with pytest.raises(MusterError, match="NOT_COORDINATOR"):
        muster.fail("OffsetCommit", "NOT_CORDINATOR")


def test_method_delay_delays_responses_until_its_block_ends(muster: Muster) -> None:
    muster.create_topic("orders")
    consumer = committing(muster)
    commit(consumer, 1)
    with muster.delay("OffsetCommit", 300, group="billing") as fault:
        began = time.monotonic()
        commit(consumer, 2)
        assert time.monotonic() - began >= 0.29  # timers count whole milliseconds
        assert fault.hits == 1
    with muster.delay("OffsetCommit", 3_600_000):  # the end of the block releases delayed requests
        consumer.commit(offsets=[TopicPartition("orders", 0, 3)], asynchronous=True)
        until("it waits", lambda: muster.requests(api="OffsetCommit")[-1].outcome == "waits")
    until("it is done", lambda: muster.requests(api="OffsetCommit")[-1].outcome == "answered")
    consumer.close()


def test_method_stop_answering_withholds_responses_until_its_with_block_ends(
    muster: Muster,
) -> None:
    muster.create_topic("orders")
    producer = Producer({**client(muster, "quiet"), "socket.timeout.ms": 1000})
    with muster.stop_answering("quiet") as fault:
        producer.produce("orders", b"one")
        until("it asks", lambda: producer.poll(0) or fault.hits)
        assert len(producer) == 1
    assert producer.flush(30) == 0


def test_method_disconnect_closes_connections_of_a_client(muster: Muster) -> None:
    consumer = committing(muster)

    def is_cut() -> bool:  # librdkafka may have closed its connections itself
        assert consumer.list_topics(timeout=30)
        return muster.disconnect("committer").hits > 0

    until("one of its connections is cut", is_cut)
    assert muster.disconnect("nobody").hits == 0
    assert consumer.list_topics(timeout=30)
    consumer.close()


def test_method_disk_full_rejects_records_until_its_block_ends(muster: Muster) -> None:
    muster.create_topic("orders")
    producer = Producer({**client(muster, "producer"), "delivery.timeout.ms": 300, "retries": 0})
    outcomes: list[KafkaError | None] = []
    with muster.disk_full():
        producer.produce("orders", b"x", on_delivery=lambda error, _: outcomes.append(error))
        producer.flush(10)
        assert outcomes[0] is not None

    produce(muster, "orders", "one")
    assert consumed(muster, "orders", 1) == [b"one"]


@pytest.mark.campaign
def test_error_after_a_failed_fsync_names_the_fsync() -> None:
    settings = {"log.flush.interval.messages": 1}
    with Muster(settings=settings) as broker:
        broker.create_topic("orders")
        producer = Producer({**client(broker, "producer"), "delivery.timeout.ms": 2000})
        broker.fail_fsync()
        producer.produce("orders", b"one")
        producer.flush(10)

        with pytest.raises(MusterError, match=r"flushing .* failed"):
            broker.create_topic("invoices")
        broker.reset()
        broker.create_topic("invoices")


# Faults of groups


def test_method_rebalance_starts_the_next_generation(muster: Muster) -> None:
    muster.create_topic("orders")
    with consuming(muster, "billing"):
        before = muster.wait_for("billing").stable(members=1).generation_id
        assert muster.rebalance("billing").hits == 1
        until("all have joined", lambda: muster.groups()[0].generation_id > before)
        muster.wait_for("billing").stable(members=1)


def test_method_expire_ends_the_session_of_a_member(muster: Muster) -> None:
    muster.create_topic("orders")
    with consuming(muster, "billing", heartbeat_interval_ms=3000):
        muster.wait_for("billing").stable(members=1)
        [member] = muster.members("billing")

        muster.expire(member.member)

        assert member.member not in {each.member for each in muster.members("billing")}
        assert any("expired" in event.sentence for event in muster.journal("billing"))


def test_method_fence_fences_a_static_member(muster: Muster) -> None:
    muster.create_topic("orders")
    with consuming(muster, "billing", name="till", group_instance_id="till-1"):
        muster.wait_for("billing").stable(members=1)
        muster.fence("till-1")

        def errors() -> set[str | None]:
            return {each.error for each in muster.requests(client_id="till")}

        until("its client is told", lambda: "FENCED_INSTANCE_ID" in errors())


def test_clients_find_the_coordinator_again_after_the_coordinator_has_moved(muster: Muster) -> None:
    muster.create_topic("orders")
    produce(muster, "orders", "one")
    with consuming(muster, "billing"):
        muster.wait_for("billing").caught_up()
        muster.move_coordinator("billing")
        produce(muster, "orders", "two")
        muster.wait_for("billing", timeout_s=LIBRDKAFKA_S).caught_up()


@pytest.mark.parametrize("verb", ["move_coordinator", "loading"])
def test_coordinator_fault_rejects_requests_until_its_with_block_ends(
    muster: Muster, verb: str
) -> None:
    muster.create_topic("orders")
    produce(muster, "orders", "one")
    with consuming(muster, "billing"):
        muster.wait_for("billing").caught_up()
        with getattr(muster, verb)("billing"):
            produce(muster, "orders", "two")
            wanted = "NOT_COORDINATOR" if verb == "move_coordinator" else "COORDINATOR_LOAD"
            until(
                "it is refused",
                lambda: any((each.error or "").startswith(wanted) for each in muster.requests()),
            )
        muster.wait_for("billing", timeout_s=LIBRDKAFKA_S).committed("orders", at_least=2)
