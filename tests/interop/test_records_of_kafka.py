"""`muster consume` and `muster produce` on Apache Kafka: transactions, and records of other
producers."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from tests.brokers import KafkaBroker, running
from tests.cli.running import Ran, run
from tests.waiting import until

pytestmark = pytest.mark.interop

SETTINGS = {"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1"}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """Yields a running Apache Kafka."""
    broker = KafkaBroker(tmp_path_factory.mktemp("kafka") / "data", SETTINGS)
    with running(broker):
        yield broker


@pytest.fixture
def topic(kafka: KafkaBroker, name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Creates a topic with one partition on Kafka, and makes this Kafka the default broker of
    commands. Returns the name of the topic."""
    monkeypatch.setenv("MUSTER_BOOTSTRAP", kafka.bootstrap)
    assert run("topics", "create", name, "-p", "1", "--config", "retention.ms=-1").code == 0
    return name


def producer(kafka: KafkaBroker, **settings: str) -> Producer:
    return Producer({"bootstrap.servers": kafka.bootstrap, "linger.ms": "50", **settings})


def values(ran: Ran) -> list[str]:
    assert ran.code == 0, ran.err
    return ran.out.split()


def test_muster_consume_omits_aborted_and_uncommitted_records(
    kafka: KafkaBroker, topic: str
) -> None:
    writer = producer(kafka, **{"transactional.id": topic})
    writer.init_transactions(60)
    for number, commits in enumerate([True, False, True, False]):
        writer.begin_transaction()
        writer.produce(topic, f"{number}a")
        writer.produce(topic, f"{number}b")
        writer.flush(30)
        (writer.commit_transaction if commits else writer.abort_transaction)(60)
    writer.begin_transaction()
    writer.produce(topic, "open")
    writer.flush(30)

    words = ["consume", topic, "--from-beginning", "--until-end"]
    committed = ["0a", "0b", "2a", "2b"]
    assert until("markers are written", lambda: values(run(*words)) == committed)
    everything = values(run(*words, "--isolation", "read_uncommitted"))
    last = values(run("consume", topic, "--last", "3", "--until-end"))
    writer.abort_transaction(60)

    assert everything == [f"{number}{letter}" for number in range(4) for letter in "ab"] + ["open"]
    assert last == ["0b", "2a", "2b"]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_copied_with_muster_consume_and_produce_are_unchanged(
    kafka: KafkaBroker, topic: str, codec: str
) -> None:
    writer = producer(kafka, **{"compression.type": codec})
    for number in range(20):
        writer.produce(
            topic,
            value=None if number % 5 == 4 else bytes(range(number)) * 20,
            key=None if number % 2 else f"k{number}",
            timestamp=1_700_000_000_000 + number,
            headers=[("trace", b"\xff%d" % number), ("none", None)],
        )
    assert writer.flush(30) == 0
    words = ["--from-beginning", "--until-end", "--json"]
    printed = run("consume", topic, *words).out
    run("topics", "create", f"{topic}-copy", "-p", "1")
    copied = run("produce", f"{topic}-copy", "--from-json", "--compression", codec, stdin=printed)

    assert copied.code == 0, copied.err
    records = [json.loads(line) for line in printed.splitlines()]
    again = run("consume", f"{topic}-copy", *words).out
    assert [json.loads(line) | {"topic": topic} for line in again.splitlines()] == records
    assert [record["timestamp_ms"] - 1_700_000_000_000 for record in records] == list(range(20))
    assert records[1]["headers"][0] == {"name": "trace", "value_base64": "/zE="}
    assert records[4]["value"] is None
