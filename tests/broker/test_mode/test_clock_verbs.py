"""The HTTP verbs for the clock, and their effects on real clients."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer

from broker.test_mode.clock.mock_time import LONG_STEPS, MOVED_MS_MAX
from protocol.records.stored import iter_stored
from tests.broker.topic_calls import commit, committed, fetch, produce
from tests.tested import Tested
from tests.waiting import until
from tests.wire import Wire, batch

MINUTE_MS, WEEK_MS = 60_000, 7 * 24 * 3_600_000
WITHIN_S = 30


class Reader:
    """A confluent-kafka consumer that polls in a thread and records its callbacks."""

    def __init__(self, muster: Tested, group: str, session_ms: int) -> None:
        self.values: list[bytes] = []
        self.assigned: list[int] = []
        """The number of assigned partitions in each assignment."""
        self.lost = 0
        self._consumer = Consumer(
            {
                "bootstrap.servers": muster.bootstrap,
                "group.id": group,
                "session.timeout.ms": session_ms,
                "heartbeat.interval.ms": 100,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 100,
            }
        )
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._consumer.subscribe(
            ["orders"], on_assign=self._on_assign, on_revoke=lambda *_: None, on_lost=self._on_lost
        )
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()
        self._consumer.close()

    def _on_assign(self, _: Consumer, partitions: list[Any]) -> None:
        self.assigned.append(len(partitions))

    def _on_lost(self, *_: object) -> None:
        self.lost += 1

    def _run(self) -> None:
        while not self._over.is_set():
            message = self._consumer.poll(0.05)
            if message is not None and message.error() is None:
                self.values.append(message.value())


@contextmanager
def reading(muster: Tested, group: str = "g", session_ms: int = 45_000) -> Iterator[Reader]:
    """Yields a running consumer after it has received an assignment."""
    reader = Reader(muster, group, session_ms)
    reader.start()
    try:
        until("it has its partitions", lambda: reader.assigned, WITHIN_S)
        yield reader
    finally:
        reader.stop()


def orders(muster: Tested, **configs: object) -> None:
    muster.post("/topics", topics=[{"name": "orders", "partitions": 2, "configs": configs}])


# -- responses of the verbs


def test_http_verbs_show_freeze_advance_and_resume_the_mock_clock(muster: Tested) -> None:
    before = muster.get("/time")
    assert sorted(before) == ["ahead_ms", "is_frozen", "mono_ms", "wall_ms"]
    assert not before["is_frozen"]
    assert abs(before["ahead_ms"]) < 1_000

    frozen = muster.post("/time/freeze")
    assert frozen["is_frozen"]
    moved = muster.post("/time/advance", ms=WEEK_MS)
    assert moved["fired"] >= 0
    assert moved["mono_ms"] == frozen["mono_ms"] + WEEK_MS
    assert moved["wall_ms"] == frozen["wall_ms"] + WEEK_MS
    assert muster.get("/time")["wall_ms"] == moved["wall_ms"]
    back = muster.post("/time/set", wall_ms=frozen["wall_ms"])
    assert (back["mono_ms"], back["wall_ms"]) == (moved["mono_ms"], frozen["wall_ms"])
    ahead = muster.post("/time/set", wall_ms=frozen["wall_ms"] + MINUTE_MS)
    assert ahead["mono_ms"] == moved["mono_ms"] + MINUTE_MS
    assert not muster.post("/time/run")["is_frozen"]
    until("it runs", lambda: muster.get("/time")["mono_ms"] > ahead["mono_ms"])


@pytest.mark.parametrize(
    ("verb", "body", "sentence"),
    [
        ("advance", {}, "ms is missing: milliseconds to advance"),
        ("advance", {"ms": -1}, "ms is -1; it must be a whole number, 0 or more"),
        ("advance", {"ms": 1.5}, "ms is 1.5; it must be a whole number, 0 or more"),
        ("advance", {"ms": MOVED_MS_MAX + 1}, "choose 0 to 315360000000 (ten years)"),
        ("set", {"wall_ms": -5}, "can't set the wall clock to -5 ms: before 1970"),
        ("set", {"wall_ms": 1 << 60}, "(ten years) are possible"),
        ("freeze", {"x": 1}, "unknown argument 'x'"),
    ],
)  # fmt: skip
def test_invalid_argument_of_a_clock_verb_is_refused_with_the_reason(
    muster: Tested, verb: str, body: dict[str, object], sentence: str
) -> None:
    status, said = muster.refused("POST", f"/time/{verb}", body)
    assert status == 400
    assert said.startswith(f"POST /test/time/{verb}: ")
    assert sentence in said
    assert abs(muster.get("/time")["ahead_ms"]) < 1_000


def test_reset_makes_the_broker_use_the_running_system_clock_again(muster: Tested) -> None:
    orders(muster)
    with reading(muster):
        muster.post("/time/freeze")
        muster.post("/time/advance", ms=WEEK_MS)
    muster.post("/reset")

    time = muster.get("/time")
    assert not time["is_frozen"]
    assert abs(time["ahead_ms"]) < 1_000
    assert muster.post("/time/advance", ms=WEEK_MS)["fired"] < 10, "of an empty broker"


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_clock_advances_while_the_broker_is_stopped(muster: Tested, end: str) -> None:
    orders(muster)
    with Wire(muster.port) as wire:
        until("there is a coordinator", lambda: coordinated(wire))
        muster.post("/topics", topics=[{"name": "t"}])
        assert commit(wire, 5) == 0
    muster.post(f"/{end}")
    assert muster.post("/time/advance", ms=WEEK_MS)["fired"] == 0
    muster.post("/start")
    muster.post("/time/advance", ms=11 * MINUTE_MS)

    with Wire(muster.port) as wire:
        until("it is loaded", lambda: committed(wire) > -1_000)
        assert committed(wire) == -1


def coordinated(wire: Wire) -> bool:
    """Returns True if FindCoordinator returns a coordinator for group g."""
    answer = wire.call("FindCoordinator", 2, {"key": "g", "key_type": 0})
    return answer["error_code"] == 0


# -- effects on real clients


def test_clock_advance_expires_a_silent_member(
    muster: Tested,
) -> None:
    orders(muster)
    with reading(muster) as reader:
        assert reader.assigned == [2]
        with Consumer(settings_of(muster, session_ms=6_000)) as other:
            other.subscribe(["orders"])
            until("they share", lambda: poll_nothing(other) or len(other.assignment()) == 1)
            until("they share", lambda: reader.assigned[-1] == 1)
            muster.post("/time/freeze")
            # The member does not learn of its removal and does not rejoin.
            muster.post("/faults", kind="stop_answering", client_id="other")
            muster.post("/time/advance", ms=7_000)
            until("it has both", lambda: reader.assigned[-1] == 2)
            muster.post("/reset")


def settings_of(muster: Tested, session_ms: int) -> dict[str, Any]:
    return {
        "bootstrap.servers": muster.bootstrap,
        "client.id": "other",
        "group.id": "g",
        "session.timeout.ms": session_ms,
    }


def poll_nothing(consumer: Consumer) -> None:
    consumer.poll(0.05)


def test_consumer_whose_session_expired_rejoins(muster: Tested) -> None:
    orders(muster)
    with reading(muster) as reader:
        muster.post("/time/advance", ms=MINUTE_MS)
        until("it has lost them", lambda: reader.lost)
        until("it has them again", lambda: len(reader.assigned) == 2)
        with Wire(muster.port) as wire:
            produce(wire, "orders", batch(b"after"))
        until("it reads on", lambda: reader.values == [b"after"])


@pytest.mark.campaign
def test_confluent_clients_work_under_a_frozen_clock(muster: Tested) -> None:
    orders(muster)
    muster.post("/time/freeze")
    producer = Producer({"bootstrap.servers": muster.bootstrap})
    with reading(muster, session_ms=6_000) as reader:
        for number in range(20):
            producer.produce("orders", str(number).encode())
            assert producer.flush(WITHIN_S) == 0
            until("it is read", lambda: len(reader.values) > number)  # noqa: B023 - called here
        with reading(muster, session_ms=6_000) as another:
            assert another.assigned == [1]
            until("they share", lambda: reader.assigned[-1] == 1)
        until("it has both again", lambda: reader.assigned[-1] == 2)
        assert reader.lost == 0


async def test_aiokafka_clients_work_under_a_frozen_clock(muster: Tested) -> None:
    orders(muster)
    muster.post("/time/freeze")
    stood = muster.get("/time")
    producer = AIOKafkaProducer(bootstrap_servers=muster.bootstrap)
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=muster.bootstrap,
        group_id="g",
        auto_offset_reset="earliest",
        heartbeat_interval_ms=100,
        session_timeout_ms=6_000,
        fetch_max_wait_ms=50,
    )
    async with producer, consumer:
        for number in range(5):
            await producer.send_and_wait("orders", str(number).encode(), partition=0)
            message = await asyncio.wait_for(consumer.getone(), WITHIN_S)
            assert message.value == str(number).encode()
            await consumer.commit()
        assert await consumer.getmany(timeout_ms=100) == {}, "an empty poll ends"
    assert muster.get("/time")["wall_ms"] == stood["wall_ms"]


def test_requests_are_not_handled_during_a_clock_advance(muster: Tested) -> None:
    """The broker sets the timestamp of each record to the time of its append. No record has a
    timestamp between the start and the end of the advance."""
    orders(muster, **{"message.timestamp.type": "LogAppendTime", "retention.ms": -1})
    stood = muster.post("/time/freeze")["wall_ms"]
    with Wire(muster.port) as wire:
        until("groups are served, and checked each ten minutes", lambda: coordinated(wire))
        produce(wire, "orders")
    over = threading.Event()

    def produce_on() -> None:
        with Wire(muster.port) as wire:
            while not over.is_set():
                assert produce(wire, "orders")["error_code"] == 0

    producing = threading.Thread(target=produce_on)
    producing.start()
    try:
        # The advance covers 1008 checks of offsets; a slow machine covers the rest in LONG_STEPS.
        assert muster.post("/time/advance", ms=WEEK_MS)["fired"] > LONG_STEPS // 2
        with Wire(muster.port) as wire:
            ends = until("others come behind it", lambda: times(wire)[1:])
    finally:
        over.set()
        producing.join()
    assert ends == [stood + WEEK_MS]


def times(wire: Wire) -> list[int]:
    found: dict[int, None] = {}
    offset = 0
    while records := fetch(wire, "orders", offset, partition_max_bytes=1 << 22)["records"]:
        for header, _ in iter_stored(records, partial=True):
            found[header.max_timestamp] = None
            offset = header.last_offset + 1
    return list(found)


def test_offsets_of_an_empty_group_expire_after_an_advance_of_a_week(muster: Tested) -> None:
    orders(muster, **{"retention.ms": -1})
    with Wire(muster.port) as wire:
        produce(wire, "orders", batch(b"one"))
    with reading(muster) as reader:
        until("it has read", lambda: reader.values == [b"one"])
    with reading(muster) as reader:
        with Wire(muster.port) as wire:
            produce(wire, "orders", batch(b"two"))
        until("it reads on", lambda: reader.values)
        assert reader.values == [b"two"], "it had committed"
    muster.post("/time/advance", ms=WEEK_MS + 11 * MINUTE_MS)

    with reading(muster) as reader:
        until("it begins anew", lambda: len(reader.values) == 2)
        assert reader.values == [b"one", b"two"]
