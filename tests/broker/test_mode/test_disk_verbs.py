"""The faults disk_full and fail_fsync of POST /test/faults, tested with real clients."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import KafkaException, TopicPartition

from broker.test_mode.verbs.faults import begin, end
from broker.topics import partition
from protocol.errors import KAFKA_STORAGE_ERROR, NONE
from tests.broker.cleaned_logs import make_topic, no_process_is_left, write
from tests.broker.edge import eventually
from tests.broker.test_mode.in_process import asked, running
from tests.broker.topic_calls import create_topic, produce
from tests.tested import Tested, tested
from tests.waiting import until
from tests.wire import batch

WITHIN_S = 30


@pytest.fixture(params=["memory", "real"])
def muster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Tested]:
    words = ("--data", str(tmp_path / "data")) if request.param == "real" else ()
    with tested("--set", "log.flush.interval.messages=1", *words) as started:
        started.post("/topics", topics=[{"name": "orders"}])
        yield started


def produced(muster: Tested, value: bytes, *, retries: int = 0) -> str:
    """Produces one value and returns the error name, or "" after success."""
    names: list[str] = []
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": muster.bootstrap, "retries": retries, "linger.ms": 0}
    )
    producer.produce(
        "orders", value, on_delivery=lambda error, _: names.append(error.name() if error else "")
    )
    assert producer.flush(WITHIN_S) == 0
    return names[0]


def commit_error(muster: Tested, offset: int) -> str:
    settings = {"bootstrap.servers": muster.bootstrap, "group.id": "billing"}
    consumer = confluent_kafka.Consumer(settings)
    try:
        wanted = [TopicPartition("orders", 0, offset)]
        (done,) = consumer.commit(offsets=wanted, asynchronous=False)
        return "" if done.error is None else str(done.error.name())
    except KafkaException as raised:
        return str(raised.args[0].name())
    finally:
        consumer.close()


def committed(muster: Tested) -> int:
    settings = {"bootstrap.servers": muster.bootstrap, "group.id": "billing"}
    consumer = confluent_kafka.Consumer(settings)
    try:
        (found,) = consumer.committed([TopicPartition("orders", 0)], WITHIN_S)
        return int(found.offset)
    finally:
        consumer.close()


def records(muster: Tested, count: int) -> list[bytes | None]:
    settings = {"bootstrap.servers": muster.bootstrap, "group.id": "reader"}
    consumer = confluent_kafka.Consumer(settings)
    try:
        consumer.assign([TopicPartition("orders", 0, 0)])
        return [each.value() for each in consumer.consume(count, WITHIN_S)]
    finally:
        consumer.close()


@pytest.mark.interop
def test_disk_full_fault_refuses_records_and_commits_until_it_ends(muster: Tested) -> None:
    assert produced(muster, b"before") == ""
    assert commit_error(muster, 1) == ""
    fault = muster.post("/faults", kind="disk_full")["id"]

    assert produced(muster, b"meanwhile") == "KAFKA_STORAGE_ERROR"
    assert commit_error(muster, 2) != ""
    assert records(muster, 1) == [b"before"]
    assert committed(muster) == 1
    (row,) = muster.get("/faults")["faults"]
    assert (row["id"], row["kind"]) == (fault, "disk_full")
    assert row["hits"] > 0

    assert muster.delete(f"/faults/{fault}")["hits"] >= row["hits"]
    assert produced(muster, b"after") == "", "without another try"
    assert commit_error(muster, 2) == ""
    assert records(muster, 2) == [b"before", b"after"]
    assert muster.get("/faults") == {"faults": []}


@pytest.mark.interop
def test_fail_fsync_fault_stops_the_broker_until_the_start_verb_runs(muster: Tested) -> None:
    assert produced(muster, b"before") == ""
    muster.post("/faults", kind="fail_fsync", times=1)
    assert produced(muster, b"lost") != ""

    def why() -> str:
        answered = muster.asked("POST", "/test/topics", {"topics": [{"name": "t"}]})
        return str(answered.body.get("error", ""))

    until("the broker says why it stopped", lambda: "Input/output error" in why(), within_s=20)
    assert "orders-0 can no longer be written safely" in why()
    muster.delete("/faults/all")
    muster.post("/start")
    assert produced(muster, b"after") == ""
    assert records(muster, 1) == [b"before"]


def test_reset_ends_disk_faults(muster: Tested) -> None:
    muster.post("/faults", kind="disk_full")
    muster.post("/faults", kind="fail_fsync")
    muster.post("/reset")
    assert muster.get("/faults") == {"faults": []}
    muster.post("/topics", topics=[{"name": "orders"}])
    assert produced(muster, b"v") == ""


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"kind": "disk_full", "times": 3}, "disk_full does not accept times; its arguments: none"),
        (
            {"kind": "fail_fsync", "api": "Produce"},
            "fail_fsync does not accept api; its arguments: times",
        ),
    ],
)
def test_invalid_arguments_of_disk_faults_are_refused(given: dict[str, object], says: str) -> None:
    with tested() as muster:
        status, error = muster.refused("POST", "/faults", given)
    assert status == 400
    assert says in error


@pytest.mark.parametrize("in_memory", [True, False])
async def test_poisoned_log_is_probed_immediately_when_disk_full_fault_ends(
    in_memory: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the end of the fault, the next probe would run an hour later."""
    monkeypatch.setattr(partition, "PROBE_MS_FIRST", 3_600_000)
    async with running(None if in_memory else str(tmp_path / "data")) as broker:
        await asked(broker, lambda wire: create_topic(wire, "t"))
        fault = (await begin(broker, "disk_full"))["id"]

        async def error() -> int:
            answer = await asked(broker, lambda wire: produce(wire, "t", batch(b"v" * 500)))
            return int(answer["error_code"])

        assert [await error(), await error()] == [KAFKA_STORAGE_ERROR] * 2
        await end(broker, fault)
        assert await error() == NONE


@pytest.mark.parametrize("in_memory", [True, False])
async def test_disk_full_fault_fails_the_log_cleaner(in_memory: bool, tmp_path: Path) -> None:
    """In test mode the cleaner is a thread, because the fault would not affect a separate
    process."""
    settings = {"log__cleaner__backoff__ms": "20"}
    directory = None if in_memory else str(tmp_path / "data")
    with no_process_is_left():
        async with running(directory, **settings) as tested_broker:
            broker = tested_broker.broker
            log = make_topic(broker, "t", segment_bytes="20000")
            write(log, random.Random(1), 20)
            full = tested_broker.disk.faults.disk_full()
            await eventually(lambda: broker.cleaning.failures)
            assert "No space left" in broker.health()["uncleanable"]["t-0"]
            full.finish()
            await eventually(lambda: broker.cleaning.runs)
            assert "uncleanable" not in broker.health()
