"""`muster transactions` on Muster and on Kafka: the commands list open and hanging transactions and
abort them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from cli.client.cluster import Cluster
from cli.client.new_topics import NewTopic, create_topics
from cli.errors import FOUND
from tests import java
from tests.broker.transactional_calls import hang
from tests.brokers import Broker, KafkaBroker
from tests.cli.running import Ran, run
from tests.waiting import until
from tests.wire import Wire

pytestmark = pytest.mark.interop

SETTINGS = {
    "transaction.partition.verification.enable": "false",
    "transaction.state.log.num.partitions": "2",
    "auto.create.topics.enable": "false",
}
BROKERS = {
    "muster": lambda data: Broker(data, SETTINGS, "127.0.0.1:0"),
    java.KAFKA_NEW: lambda data: KafkaBroker(data, SETTINGS),
    "kafka-3.9.2": lambda data: KafkaBroker(data, SETTINGS, java.KAFKA_LAST_TO_SERVE_OLD_CLIENTS),
}


@pytest.fixture(scope="module", params=BROKERS)
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    made = BROKERS[request.param](tmp_path_factory.mktemp(request.param) / "data").start()
    try:
        yield made
    finally:
        made.kill()


@pytest.fixture
def topic(broker: Broker, name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("MUSTER_BOOTSTRAP", broker.bootstrap)
    cluster = Cluster(broker.bootstrap)
    create_topics(cluster, [NewTopic(name, 2, 1, {})])
    cluster.close()
    return name


def opened(broker: Broker, name: str, topic: str, *partitions: int) -> Producer:
    """Opens a transaction with three records in each partition. Returns its producer."""
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "transactional.id": name,
            "transaction.timeout.ms": 300_000,
        }
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    for partition in partitions:
        for _ in range(3):
            producer.produce(topic, b"x", partition=partition)
    assert producer.flush(30) == 0
    return producer


def shown(ran: Ran) -> Any:
    return json.loads(ran.out)


def listed(*words: str) -> dict[str, dict[str, Any]]:
    rows = shown(run("transactions", "list", *words, "--json"))
    return {row["transactional_id"]: row for row in rows}


def test_open_transactions_are_listed_with_age_and_filters(broker: Broker, topic: str) -> None:
    name = f"{topic}-a"
    producer = opened(broker, name, topic, 0, 1)
    row = listed()[name]
    assert row["state"] == "Ongoing"
    assert row["partitions"] == [{"topic": topic, "partitions": [0, 1]}]
    assert 0 <= row["open_ms"] < 60_000
    assert row["timeout_ms"] == 300_000
    is_muster = not isinstance(broker, KafkaBroker)
    assert (row["client"], row["host"]) == (("rdkafka", "127.0.0.1") if is_muster else (None, None))
    assert name in listed("--state", "open")
    assert name not in listed("--state", "CompleteCommit")
    assert name in listed(f"{topic}-*", "--producer-id", str(row["producer_id"]))
    assert listed("--producer-id", str(row["producer_id"] + 1000)) == {}
    assert listed("--longer-than", "1h") == {}
    assert until("it is a second old", lambda: name in listed("--longer-than", "1s"))
    producer.commit_transaction(30)
    assert until("it is committed", lambda: listed()[name]["state"] == "CompleteCommit")
    assert listed()[name]["open_ms"] is None


def test_transactions_describe_shows_transactions_blocking_the_last_stable_offset(
    broker: Broker, topic: str
) -> None:
    name = f"{topic}-a"
    first = opened(broker, name, topic, 0)
    second = opened(broker, f"{topic}-b", topic, 0)
    [row] = shown(run("transactions", "describe", name, "--json"))
    [place] = row["partitions"]
    assert (place["start_offset"], place["last_stable_offset"], place["end_offset"]) == (0, 0, 6)
    assert (place["held_back"], place["holds"], place["open_transactions"]) == (6, True, 2)
    [other] = shown(run("transactions", "describe", f"{topic}-b", "--json"))[0]["partitions"]
    assert (other["start_offset"], other["holds"]) == (3, False)
    rows = shown(run("transactions", "describe", "--topic", topic, "--json"))
    assert [(each["partition"], each["start_offset"], each["holds"]) for each in rows] == [
        (0, 0, True),
        (0, 3, False),
    ]
    text = run("transactions", "describe", name).out
    assert f"{name}  Ongoing  open for " in text
    assert "times out in 5 min" in text or "times out in 4 min" in text
    first.abort_transaction(30)
    second.abort_transaction(30)


def test_error_for_an_unknown_transactional_id_suggests_a_known_id(
    broker: Broker, topic: str
) -> None:
    producer = opened(broker, f"{topic}-alike", topic, 0)
    ran = run("transactions", "describe", f"{topic}-alik")
    assert ran.code == 1
    assert (
        "TRANSACTIONAL_ID_NOT_FOUND); `muster transactions list` shows all transactional"
        " ids; did you mean" in (ran.err)
    )
    producer.abort_transaction(30)


def test_abort_by_transactional_id_fences_the_producer(broker: Broker, topic: str) -> None:
    name = f"{topic}-a"
    producer = opened(broker, name, topic, 0, 1)
    ran = run("transactions", "abort", name)
    assert ran.code == 2, "nothing is done in a pipe without --yes"
    assert "fenced" in ran.out
    assert listed()[name]["state"] == "Ongoing"
    ran = run("transactions", "abort", name, "--yes")
    assert (ran.code, ran.err) == (0, "")
    assert f"Aborted the transaction of {name}; its producer is fenced" in ran.out
    with pytest.raises(Exception, match=r"fenced|FENCED|epoch"):
        producer.commit_transaction(30)
    ran = run("transactions", "abort", name, "--yes")
    assert ran.code == 1
    assert "has no open transaction" in ran.err
    rows = shown(run("transactions", "describe", "--topic", topic, "--json"))
    assert [each["start_offset"] for each in rows] == [None, None]


def test_recommended_command_aborts_a_hanging_transaction(broker: Broker, topic: str) -> None:
    live = opened(broker, f"{topic}-live", topic, 1)
    with Wire(broker.port) as wire:
        hang(wire, f"{topic}-gone", topic, 0)

    def found() -> list[dict[str, Any]]:
        rows = shown(
            run("transactions", "hanging", "--topic", topic, "--longer-than", "1s", "--json")
        )
        return rows if isinstance(rows, list) else []

    [row] = until("it has been silent for so long", found)
    assert (row["topic"], row["partition"], row["start_offset"]) == (topic, 0, 0)
    assert row["held_back"] == 2
    assert row["transactional_id"] == f"{topic}-gone"
    assert row["coordinator_epoch"] is None, "no marker was written yet"
    ran = run("transactions", "hanging", "--longer-than", "1s")
    assert ran.code == FOUND
    assert row["command"] in ran.out
    words = row["command"].split()[1:]
    ran = run(*words, "--dry-run")
    assert (ran.code, ran.err) == (0, "")
    assert "An ABORT marker is written to" in ran.out
    ran = run(*words, "--yes")
    assert (ran.code, ran.err) == (0, "")
    assert found() == []
    ran = run("transactions", "hanging", "--topic", topic, "--longer-than", "1s")
    assert (ran.code, ran.out.strip()) == (0, "No hanging transactions in 2 partitions")
    [left] = shown(run("transactions", "describe", "--topic", f"{topic}:0", "--json"))
    assert left["start_offset"] is None
    live.commit_transaction(30)


def test_wrong_usage_of_transactions_commands_is_rejected(broker: Broker, topic: str) -> None:
    for words, told in (
        (["abort"], "name a transactional id"),
        (
            ["abort", "--topic", f"{topic}:0"],
            "--start-offset N or --producer-id N; `muster transactions describe --topic"
            f" {topic}:0` shows start offsets and producer ids",
        ),
        (["abort", "--topic", topic, "--start-offset", "0"], "name one partition"),
        (
            ["abort", "--topic", f"{topic}:0", "--start-offset", "7"],
            f"{topic}:0 has no open transaction",
        ),
        (["list", "--state", "Strange"], "choose open or one of Empty"),
        (["describe"], "name transactional ids"),
        (["hanging", "--topic", f"{topic}:9"], f"partition {topic}:9 does not exist"),
    ):
        ran = run("transactions", *words)
        assert ran.code in (1, 2), words
        assert told in ran.err, (words, ran.err)
