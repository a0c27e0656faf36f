"""A broker in test mode keeps its addresses when it is stopped, killed, started or reset."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.broker.topic_calls import commit, committed, fetch, produce
from tests.held import Held
from tests.tested import Tested, tested
from tests.waiting import until
from tests.wire import Wire, batch, values_of


@pytest.fixture(params=["memory", "directory"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Tested]:
    """Yields a test broker. The parameter of the fixture chooses whether its data is in memory or
    in a directory."""
    words = [] if request.param == "memory" else ["--data", str(tmp_path / "data")]
    with tested(*words) as started:
        yield started


def values(muster: Tested, topic: str) -> list[bytes]:
    with Wire(muster.port) as wire:
        return values_of(fetch(wire, topic)["records"])


def find(wire: Wire) -> int:
    code: int = wire.call("FindCoordinator", 2, {"key": "g", "key_type": 0})["error_code"]
    return code


def fill(muster: Tested) -> None:
    """Creates a topic with one record, and commits offset 1 for a group."""
    muster.post("/topics", topics=[{"name": "t"}])
    with Wire(muster.port) as wire:
        produce(wire, "t", batch(b"one"))
        until("the group has a coordinator", lambda: not find(wire))
        assert commit(wire, 1) == 0


def offset(muster: Tested) -> int:
    with Wire(muster.port) as wire:
        return until("the group is loaded", lambda: committed(wire), tolerate=IndexError)


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_acknowledged_data_survive_a_stop_and_start(either: Tested, end: str) -> None:
    fill(either)

    assert either.post(f"/{end}") == {"is_running": False}
    assert either.post("/start") == {"is_running": True}

    assert values(either, "t") == [b"one"]
    assert offset(either) == 1
    with Wire(either.port) as wire:
        produce(wire, "t", batch(b"two"))
    assert values(either, "t") == [b"one", b"two"]


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_stopped_test_broker_refuses_connections_and_keeps_its_port(
    muster: Tested, end: str
) -> None:
    muster.post(f"/{end}")

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", muster.port), 5)
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", muster.port))  # The test broker still reserves the port.


def test_connections_close_when_the_broker_is_killed(muster: Tested) -> None:
    with socket.create_connection(("127.0.0.1", muster.port)) as connection:
        with Wire(muster.port) as wire:
            wire.call("ApiVersions", 0)
        muster.post("/kill")
        connection.settimeout(60)
        assert connection.recv(1) == b""


def test_second_stop_kill_or_start_request_changes_nothing(muster: Tested) -> None:
    for verb, running in (("stop", False), ("kill", False), ("start", True), ("start", True)):
        assert muster.post(f"/{verb}") == {"is_running": running}
        assert muster.post(f"/{verb}") == {"is_running": running}


def test_request_that_needs_a_running_broker_is_refused_while_the_broker_is_stopped(
    muster: Tested,
) -> None:
    muster.post("/stop")

    assert muster.refused("POST", "/topics", {"topics": [{"name": "t"}]}) == (
        409,
        "the broker is stopped: POST /test/start starts it",
    )
    assert muster.asked("GET", "/api/groups") == (
        503,
        {"error": "the broker is stopped: POST /test/start starts it"},
    )
    assert muster.asked("GET", "/healthz").status == 503


def test_http_pages_show_the_new_broker_after_a_reset(muster: Tested) -> None:
    muster.post("/topics", topics=[{"name": "old"}])
    assert [each["topic"] for each in muster.asked("GET", "/api/topics").body["topics"]] == ["old"]

    muster.post("/reset")

    assert muster.asked("GET", "/api/topics").body["topics"] == []


@pytest.mark.campaign
def test_reset_deletes_only_data_that_test_mode_created(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with tested("--data", str(data)) as first:
        assert first.told["data"] == str(data)
        fill(first)
    with tested("--data", str(data)) as second:
        assert values(second, "t") == [b"one"]
        second.post("/reset")
        assert not (data / "t-0").exists()
        fill(second)
    (data / ".muster-test").unlink()
    with tested("--data", str(data)) as third:
        status, sentence = third.refused("POST", "/reset")
        assert status == 409
        assert sentence.startswith(f"{data} contained data when")
        assert values(third, "t") == [b"one"]


def test_clients_continue_after_the_broker_was_killed_and_started_again(muster: Tested) -> None:
    muster.post("/topics", topics=[{"name": "t"}])
    producer = Producer({"bootstrap.servers": muster.bootstrap, "linger.ms": 0})
    producer.produce("t", b"before")
    assert producer.flush(20) == 0

    muster.post("/kill")
    producer.produce("t", b"while it is down")
    muster.post("/start")

    assert producer.flush(20) == 0
    consumer = Consumer({"bootstrap.servers": muster.bootstrap, "group.id": "g"})
    consumer.assign([TopicPartition("t", 0, 0)])
    read: list[Any] = []
    until(
        "both records are read",
        lambda: (read.extend(consumer.consume(10, 0.2)), len(read) >= 2)[1],
    )
    assert [each.value() for each in read] == [b"before", b"while it is down"]
    consumer.close()


@pytest.mark.campaign
def test_resets_do_not_leak_files_threads_or_memory(muster: Tested) -> None:
    took_ms = []

    def once(number: int) -> None:
        took_ms.append(muster.post("/reset")["took_ms"])
        if number % 50 == 0:
            fill(muster)

    for number in range(200):
        once(number)
    before = Held(muster.told["pid"])
    for number in range(1000):
        once(number)

    def nothing_leaks() -> bool:
        once(0)  # A leak would grow further.
        Held(muster.told["pid"]).check_not_above(before)
        return True

    until("it is as before", nothing_leaks)
    assert min(took_ms) < 20
