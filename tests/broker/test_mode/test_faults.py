"""Injected faults with real clients: errors, delays, missing responses and closed connections."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import kafka
import kafka.errors
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tests.tested import Tested
from tests.waiting import until
from tests.wire import Wire

WITHIN_S = 30


@pytest.fixture
def consumer(muster: Tested) -> Iterator[confluent_kafka.Consumer]:
    """Yields a consumer of group ``billing`` that commits offsets but has no assignment."""
    made = confluent_kafka.Consumer(settings(muster))
    yield made
    made.close()


def settings(muster: Tested, client_id: str = "app-1") -> dict[str, Any]:
    return {
        "bootstrap.servers": muster.bootstrap,
        "client.id": client_id,
        "group.id": "billing",
        "session.timeout.ms": 6000,
        "auto.offset.reset": "earliest",
    }


def orders(muster: Tested) -> None:
    muster.post("/topics", topics=[{"name": "orders"}, {"name": "payments"}])


def commit_error(consumer: confluent_kafka.Consumer, topic: str = "orders") -> str | None:
    """Commits offset 1 and returns the client's name for the error."""
    try:
        (done,) = consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    except KafkaException as raised:
        return str(raised.args[0].name())
    return None if done.error is None else str(done.error.name())


def seen(muster: Tested, api: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = muster.get(f"/requests?api={api}")["requests"]
    return rows


def test_commit_fails_with_the_injected_error_until_the_fault_ends(
    muster: Tested, consumer: confluent_kafka.Consumer
) -> None:
    orders(muster)
    fault = muster.post(
        "/faults", kind="fail", api="offsetcommit", error="invalid_commit_offset_size"
    )

    assert commit_error(consumer) == "INVALID_COMMIT_OFFSET_SIZE"
    assert commit_error(consumer) == "INVALID_COMMIT_OFFSET_SIZE"

    assert muster.delete(f"/faults/{fault['id']}") == {"hits": 2}
    assert commit_error(consumer) is None
    assert [row["error"] for row in seen(muster, "OffsetCommit")] == [
        "INVALID_COMMIT_OFFSET_SIZE",
        "INVALID_COMMIT_OFFSET_SIZE",
        None,
    ]


def test_fault_with_a_filter_does_not_affect_other_requests(
    muster: Tested, consumer: confluent_kafka.Consumer
) -> None:
    orders(muster)
    for others in ({"topic": "payments"}, {"group": "audit"}, {"client_id": "app-2"}):
        muster.post(
            "/faults", kind="fail", api="OffsetCommit", error="UNKNOWN_SERVER_ERROR", **others
        )
    assert commit_error(consumer) is None
    for ours in ({"topic": "orders"}, {"group": "billing"}, {"client_id": "app-1"}):
        fault = muster.post(
            "/faults", kind="fail", api="OffsetCommit", error="GROUP_AUTHORIZATION_FAILED", **ours
        )
        assert commit_error(consumer) == "GROUP_AUTHORIZATION_FAILED", ours
        muster.delete(f"/faults/{fault['id']}")
    assert commit_error(consumer, "payments") == "UNKNOWN"
    assert [row["hits"] for row in muster.get("/faults")["faults"]] == [1, 0, 0]


def test_fault_with_argument_times_ends_after_this_number_of_requests(
    muster: Tested, consumer: confluent_kafka.Consumer
) -> None:
    orders(muster)
    error = "TOPIC_AUTHORIZATION_FAILED"
    muster.post("/faults", kind="fail", api="OffsetCommit", error=error, times=1)

    assert [commit_error(consumer), commit_error(consumer)] == [error, None]


def test_reset_ends_every_fault(muster: Tested) -> None:
    orders(muster)
    muster.post("/faults", kind="fail", api="OffsetCommit", error="UNKNOWN_SERVER_ERROR")
    muster.post("/faults", kind="stop_answering")
    muster.post("/faults", kind="delay", ms=100_000)
    muster.post("/reset")
    orders(muster)

    assert muster.get("/faults") == {"faults": []}
    consumer = confluent_kafka.Consumer(settings(muster))
    assert commit_error(consumer) is None
    consumer.close()


def test_kafka_python_raises_the_injected_error(muster: Tested) -> None:
    orders(muster)
    consumer = kafka.KafkaConsumer(bootstrap_servers=muster.bootstrap, group_id="billing")
    offsets = {kafka.TopicPartition("orders", 0): kafka.OffsetAndMetadata(1, "", -1)}
    consumer.assign(list(offsets))
    muster.post("/faults", kind="fail", api="OffsetCommit", error="GROUP_AUTHORIZATION_FAILED")

    with pytest.raises(kafka.errors.GroupAuthorizationFailedError):
        consumer.commit(offsets)

    muster.delete("/faults/all")
    consumer.commit(offsets)
    consumer.close()


@pytest.mark.parametrize("error", ["TOPIC_AUTHORIZATION_FAILED", "MSG_SIZE_TOO_LARGE"])
def test_produce_fails_with_the_injected_error(muster: Tested, error: str) -> None:
    orders(muster)
    name = {"MSG_SIZE_TOO_LARGE": "MESSAGE_TOO_LARGE"}.get(error, error)
    muster.post("/faults", kind="fail", api="Produce", error=name, topic="orders")
    producer = confluent_kafka.Producer({"bootstrap.servers": muster.bootstrap})
    got: dict[str, str | None] = {}

    def sent(error: KafkaError | None, message: confluent_kafka.Message) -> None:
        got[str(message.topic())] = None if error is None else error.name()

    for topic in ("orders", "payments"):
        producer.produce(topic, b"1", on_delivery=sent)
        producer.flush(WITHIN_S)

    assert got == {"orders": error, "payments": None}


@pytest.mark.campaign
def test_fetch_fault_fails_only_its_partitions_until_the_fault_ends(muster: Tested) -> None:
    orders(muster)
    producer = confluent_kafka.Producer({"bootstrap.servers": muster.bootstrap})
    producer.produce("orders", b"1")
    producer.flush(WITHIN_S)
    consumer = confluent_kafka.Consumer(settings(muster))
    muster.post(
        "/faults", kind="fail", api="Fetch", error="TOPIC_AUTHORIZATION_FAILED", topic="orders"
    )
    consumer.assign([TopicPartition("orders", 0, 0)])

    first = consumer.poll(WITHIN_S)
    assert first is not None
    assert (first.error() and first.error().name()) == "TOPIC_AUTHORIZATION_FAILED"

    muster.delete("/faults/all")
    while (message := consumer.poll(WITHIN_S)) is not None and message.error():
        pass
    assert message is not None
    assert message.value() == b"1"
    consumer.close()


def test_delay_fault_affects_only_the_configured_client(muster: Tested) -> None:
    orders(muster)
    muster.post("/faults", kind="delay", api="OffsetCommit", ms=400, client_id="slow")
    took = {}
    for client_id in ("slow", "app-1"):
        consumer = confluent_kafka.Consumer(settings(muster, client_id))
        began = time.monotonic()
        assert commit_error(consumer) is None
        took[client_id] = time.monotonic() - began
        consumer.close()

    rows = {row["client_id"]: row["took_ms"] for row in seen(muster, "OffsetCommit")}
    assert took["slow"] >= 0.4
    assert rows["slow"] > 399 > rows["app-1"]  # Timers count whole milliseconds.


def test_delay_fault_keeps_the_order_of_responses_of_a_connection(muster: Tested) -> None:
    orders(muster)
    fault = muster.post("/faults", kind="delay", api="Metadata", ms=100_000)
    with Wire(muster.port) as wire, Wire(muster.port) as other:
        slow = wire.send("Metadata", 9, {"topics": []})
        quick = wire.send("ListGroups", 4, {})
        assert other.call("ListGroups", 4)["error_code"] == 0
        rows = seen(muster, "ListGroups")
        assert len(rows) == 1
        assert seen(muster, "Metadata")[0]["outcome"] == "waits"

        assert muster.delete(f"/faults/{fault['id']}") == {"hits": 1}
        assert [wire.receive()[0], wire.receive()[0]] == [slow, quick]


def test_client_request_times_out_while_the_fault_stop_answering_is_active(muster: Tested) -> None:
    orders(muster)
    consumer = confluent_kafka.Consumer(settings(muster))
    assert consumer.list_topics(timeout=WITHIN_S).topics.keys() >= {"orders"}
    fault = muster.post("/faults", kind="stop_answering", client_id="app-1")

    with pytest.raises(KafkaException) as raised:
        consumer.list_topics(timeout=0.5)
    assert raised.value.args[0].code() in (KafkaError._TRANSPORT, KafkaError._TIMED_OUT)
    with Wire(muster.port) as wire:
        assert wire.call("ListGroups", 4)["error_code"] == 0

    muster.delete(f"/faults/{fault['id']}")
    assert consumer.list_topics(timeout=WITHIN_S).topics.keys() >= {"orders"}
    consumer.close()


def test_stop_answering_fault_delays_requests_until_the_fault_ends(muster: Tested) -> None:
    orders(muster)
    with Wire(muster.port, client_id="app-1") as wire:
        found = wire.call("FindCoordinator", 3, {"key": "billing", "key_type": 0})
        assert found["error_code"] == 0
        join = {
            "group_id": "billing",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 10_000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        }
        wire.socket.settimeout(0.3)
        muster.post("/faults", kind="stop_answering", client_id="app-1")
        wire.send("JoinGroup", 3, join)
        with pytest.raises(TimeoutError):
            wire.receive()
        wire.socket.settimeout(WITHIN_S)
        muster.delete("/faults/all")
        assert wire.receive()[1]["error_code"] == 0


def test_disconnect_fault_closes_the_connections_of_one_client(muster: Tested) -> None:
    orders(muster)
    with Wire(muster.port, client_id="app-1") as wire, Wire(muster.port, "app-2") as other:
        for each in (wire, other):
            each.call("ListGroups", 4)
        assert muster.post("/disconnect", client_id="app-1") == {"connections": 1}
        assert wire.is_closed()
        assert other.call("ListGroups", 4)["error_code"] == 0
        assert muster.post("/disconnect") == {"connections": 1}
        assert other.is_closed()


def test_client_reconnects_after_a_disconnect_fault(muster: Tested) -> None:
    orders(muster)
    consumer = confluent_kafka.Consumer(settings(muster))

    def lists() -> bool:
        return "orders" in consumer.list_topics(timeout=WITHIN_S).topics

    until("it is connected", lists)
    before = len(seen(muster, "ApiVersions"))
    cut = "one of its connections is cut"
    until(cut, lambda: muster.post("/disconnect", client_id="app-1")["connections"])

    until("it is connected again", lists)
    assert len(seen(muster, "ApiVersions")) > before
    consumer.close()


def test_invalid_fault_is_refused_with_the_reason(muster: Tested) -> None:
    def refusal(**body: object) -> str:
        status, sentence = muster.refused("POST", "/faults", body)
        assert status == 400
        return sentence

    assert "did you mean fail?" in refusal(kind="fial")
    assert "OffsetCommit" in refusal(kind="fail", api="OffsetComit", error="NOT_COORDINATOR")
    assert "NOT_COORDINATOR" in refusal(kind="fail", api="OffsetCommit", error="NO_COORDINATOR")
    assert "needs error" in refusal(kind="fail", api="OffsetCommit")
    assert "does not accept error" in refusal(kind="delay", ms=1, error="NOT_COORDINATOR")
    assert muster.refused("DELETE", "/faults/99") == (
        404,
        "DELETE /test/faults/99: fault '99' does not exist; GET /test/faults lists all faults",
    )
