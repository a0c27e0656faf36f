"""What production does, on command: each verb reaches a real client, and ends when it shall."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from musterd.testing import Muster, MusterError
from tests.musterd.testing.clients import client
from tests.waiting import until


def committing(broker: Muster) -> Consumer:
    """A consumer outside of any generation, which can only commit."""
    return Consumer({**client(broker, "committer"), "group.id": "billing"})


def commit(consumer: Consumer, offset: int) -> None:
    consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)


def error_of(consumer: Consumer, offset: int) -> int:
    with pytest.raises(KafkaException) as raised:
        commit(consumer, offset)
    code: int = raised.value.args[0].code()
    return code


def test_an_api_fails_so_often_and_then_no_more(muster: Muster) -> None:
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


def test_a_fault_ends_with_its_block_with_end_and_with_reset(muster: Muster) -> None:
    muster.create_topic("orders")
    consumer = committing(muster)
    with muster.fail("offsetcommit", "group_authorization_failed") as fault:
        assert error_of(consumer, 1) == KafkaError.GROUP_AUTHORIZATION_FAILED
    commit(consumer, 1)
    assert fault.hits == 1
    fault.end()  # once more is no error

    fault = muster.fail("OffsetCommit", "GROUP_AUTHORIZATION_FAILED")
    fault.end()
    commit(consumer, 2)

    fault = muster.fail("OffsetCommit", "GROUP_AUTHORIZATION_FAILED")
    muster.reset()
    muster.create_topic("orders")
    commit(consumer, 3)
    fault.end()
    consumer.close()


def test_what_a_test_met_is_not_hidden_by_the_end_of_a_fault() -> None:
    def story(broker: Muster) -> None:
        with broker.fail("Fetch", "NOT_LEADER_OR_FOLLOWER"):
            broker.close()
            raise ZeroDivisionError

    with Muster() as broker, pytest.raises(ZeroDivisionError):
        story(broker)


def test_a_name_that_kafka_does_not_have_is_told_with_those_that_are_like_it(
    muster: Muster,
) -> None:
    with pytest.raises(MusterError, match="OffsetCommit"):
        muster.fail("OffsetComit", "NOT_COORDINATOR")
    with pytest.raises(MusterError, match="NOT_COORDINATOR"):
        muster.fail("OffsetCommit", "NOT_CORDINATOR")


def test_an_answer_is_delayed(muster: Muster) -> None:
    muster.create_topic("orders")
    consumer = committing(muster)
    commit(consumer, 1)
    with muster.delay("OffsetCommit", 300, group="billing") as fault:
        began = time.monotonic()
        commit(consumer, 2)
        assert time.monotonic() - began >= 0.3
        assert fault.hits == 1
    with muster.delay("OffsetCommit", 3_600_000):  # and what waits goes on when it ends
        consumer.commit(offsets=[TopicPartition("orders", 0, 3)], asynchronous=True)
        until("it waits", lambda: muster.requests(api="OffsetCommit")[-1].outcome == "waits")
    until("it is done", lambda: muster.requests(api="OffsetCommit")[-1].outcome == "answered")
    consumer.close()


def test_silence_ends_with_its_block(muster: Muster) -> None:
    muster.create_topic("orders")
    producer = Producer({**client(muster, "quiet"), "socket.timeout.ms": 1000})
    with muster.stop_answering("quiet") as fault:
        producer.produce("orders", b"one")
        until("it asks", lambda: producer.poll(0) or fault.hits)
        assert len(producer) == 1
    assert producer.flush(30) == 0


def test_connections_are_closed(muster: Muster) -> None:
    consumer = committing(muster)

    def is_cut() -> bool:  # librdkafka closes some by itself
        assert consumer.list_topics(timeout=30)
        return muster.disconnect("committer").hits > 0

    until("one of its connections is cut", is_cut)
    assert muster.disconnect("nobody").hits == 0
    assert consumer.list_topics(timeout=30)
    consumer.close()
