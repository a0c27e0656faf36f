"""Tests each subcommand of `kafka-transactions` with a hanging transaction that the test has
written, and also Java's Admin client and kafka-features. The tests pass on Apache Kafka 4.3.1 too
(BROKER=kafka)."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from protocol.errors import NONE, PRODUCER_FENCED
from protocol.records.batch import encode_batch
from protocol.records.section import Record
from tests import java
from tests.broker.topic_calls import fetch, produce
from tests.broker.transactional_calls import (
    added,
    begin,
    create_led,
    end,
    send,
    state_of,
)
from tests.brokers import KIND, Broker, make_broker
from tests.waiting import until
from tests.wire import Wire

pytestmark = pytest.mark.interop
ADMIN = Path(__file__).parent / "programs" / "TransactionsAdmin.java"
GHOST = 4711
"""The producer id of a transaction that the coordinator does not know."""
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def unguarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Yields a broker without verification of transactions, on which transactions can hang, as on
    all brokers before KIP-890."""
    settings = {"transaction.partition.verification.enable": "false"}
    broker = make_broker(tmp_path_factory.mktemp("unguarded") / "data", settings).start()
    yield broker
    broker.stop()


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker.port) as connection:
        yield connection


@pytest.fixture
def open_wire(unguarded: Broker) -> Iterator[Wire]:
    with Wire(unguarded.port) as wire:
        yield wire


def command(broker: Broker, *words: str, code: int = 0) -> str:
    """Runs ``kafka-transactions`` of 4.3.1 and returns its output."""
    tool = "org.apache.kafka.tools.TransactionsCommand"
    given = ("--bootstrap-server", broker.bootstrap, *words)
    done = java.run(java.KAFKA_NEW, tool, *given, own_jvm=True)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + (done.stderr if code else "")


def table(text: str) -> list[dict[str, str]]:
    """Returns the rows of a table that a tool has printed, by column title."""
    lines = [line.rstrip("\t").split("\t") for line in text.splitlines() if line.strip()]
    cells = [[cell.strip() for cell in line] for line in lines]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[1:]]


def opened(wire: Wire, name: str) -> tuple[int, int]:
    """Opens a transaction on partition 0 of a topic. Returns its producer id and epoch."""
    create_led(wire, name, 2)
    producer = begin(wire, name)
    added(wire, name, producer, [(name, [0])])
    assert send(wire, name, producer, name)["error_code"] == NONE
    return producer


def hang(wire: Wire, name: str, partition: int = 0) -> None:
    """Writes records of a hanging transaction to a partition. They are an hour old, and the
    coordinator does not know the transaction."""
    data = encode_batch(
        [Record(0, int(time.time() * 1000) - HOUR_MS, None, b"stuck")],
        base_offset=0,
        producer_id=GHOST,
        producer_epoch=3,
        base_sequence=0,
        is_transactional=True,
    )
    ghost = f"{name}-ghost"
    answer = produce(wire, name, data, partition, 11, transactional_id=ghost)
    assert answer["error_code"] == NONE


def test_open_transaction_is_listed_and_described(broker: Broker, wire: Wire, name: str) -> None:
    pid, epoch = opened(wire, name)

    for filters in ((), ("--duration-filter", "0"), ("--transactional-id-pattern", f"{name}.*")):
        rows = table(command(broker, "list", *filters))
        (found,) = (row for row in rows if row["TransactionalId"] == name)
        assert found == {
            "TransactionalId": name,
            "Coordinator": "1",
            "ProducerId": str(pid),
            "TransactionState": "Ongoing",
        }
    assert table(command(broker, "list", "--transactional-id-pattern", f"{name}.+")) == []

    (described,) = table(command(broker, "describe", "--transactional-id", name))
    assert (described["TransactionState"], described["TopicPartitions"]) == ("Ongoing", f"{name}-0")
    assert (described["ProducerId"], described["ProducerEpoch"]) == (str(pid), str(epoch))
    (producing,) = table(command(broker, "describe-producers", "--topic", name, "--partition", "0"))
    assert producing["ProducerId"] == str(pid)
    assert producing["CurrentTransactionStartOffset"] == "0"
    assert end(wire, name, (pid, epoch))[0] == NONE


def test_unknown_transactional_id_and_invalid_pattern_are_rejected(
    broker: Broker, name: str
) -> None:
    unknown = command(broker, "describe", "--transactional-id", name, code=1)
    assert "could not be found" in unknown
    command(broker, "list", "--transactional-id-pattern", "(", code=1)  # the tool prints nothing


def test_hanging_transaction_is_found_and_aborted(
    unguarded: Broker, open_wire: Wire, name: str
) -> None:
    """The coordinator does not end this transaction, so read_committed consumers would wait
    forever."""
    producer = opened(open_wire, name)
    assert end(open_wire, name, producer)[0] == NONE
    hang(open_wire, name, partition=1)
    stuck = fetch(open_wire, name, partition=1, isolation_level=1)
    assert (stuck["last_stable_offset"], stuck["high_watermark"]) == (0, 1)

    for where in (("--broker-id", "1"), ("--topic", name), ("--topic", name, "--partition", "1")):
        rows = table(command(unguarded, "find-hanging", *where))
        (found,) = (row for row in rows if row["Topic"] == name)
        assert (found["Partition"], found["ProducerId"]) == ("1", str(GHOST))
        assert (found["ProducerEpoch"], found["StartOffset"]) == ("3", "0")
        assert 59 <= int(found["Duration(min)"]) <= 61

    at = ("--topic", name, "--partition", "1")
    command(unguarded, "abort", *at, "--start-offset", "0")

    until(
        "readers go on",
        lambda: fetch(open_wire, name, partition=1, isolation_level=1)["last_stable_offset"] == 2,
    )
    assert table(command(unguarded, "find-hanging", "--topic", name)) == []
    (after,) = table(command(unguarded, "describe-producers", *at))
    assert after["CurrentTransactionStartOffset"] == "None"


def test_abort_by_producer_id_checks_producer_and_coordinator_epochs(
    unguarded: Broker, open_wire: Wire, name: str
) -> None:
    create_led(open_wire, name)
    hang(open_wire, name)
    at = ("--topic", name, "--partition", "0", "--producer-id", str(GHOST))

    stale = command(
        unguarded, "abort", *at, "--producer-epoch", "2", "--coordinator-epoch", "0", code=1
    )
    assert "invalid producer epoch" in stale
    command(unguarded, "abort", *at, "--producer-epoch", "3", "--coordinator-epoch", "5")
    older = command(
        unguarded, "abort", *at, "--producer-epoch", "3", "--coordinator-epoch", "4", code=1
    )
    assert "fenced" in older
    assert fetch(open_wire, name, isolation_level=1)["last_stable_offset"] == 2


def test_force_terminate_aborts_the_transaction_of_a_transactional_id(
    broker: Broker, wire: Wire, name: str
) -> None:
    producer = opened(wire, name)

    command(broker, "forceTerminateTransaction", "--transactionalId", name)

    assert state_of(wire, name) == "Empty"
    assert end(wire, name, producer)[0] == PRODUCER_FENCED
    read = fetch(wire, name, isolation_level=1)
    assert read["last_stable_offset"] == 2
    assert read["aborted_transactions"] == [{"producer_id": producer[0], "first_offset": 0}]


def test_java_admin_client_manages_transactions(broker: Broker, wire: Wire, name: str) -> None:
    opened(wire, name)

    done = subprocess.run(
        java.source(java.KAFKA_NEW, ADMIN, broker.bootstrap, name, name),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[:6] == [
        f"listed {name} Ongoing",
        f"described Ongoing [{name}-0]",
        "producing true from 0",
        "aborted, still open: false",
        "fenced true true",
        "described Empty",
    ]
    assert "transaction.version" in lines[6]


@pytest.mark.skipif(KIND == "kafka", reason="the setting is Muster's own")
def test_kafka_features_describes_the_transaction_version(brokers: Callable[..., Broker]) -> None:
    for level in (2, 1, 0):
        broker = brokers({"transaction.version": str(level)})
        done = java.run(
            java.KAFKA_NEW,
            "org.apache.kafka.tools.FeatureCommand",
            "--bootstrap-server",
            broker.bootstrap,
            "describe",
        )
        assert done.returncode == 0, done.stdout + done.stderr
        (line,) = (each for each in done.stdout.splitlines() if "transaction.version" in each)
        told = dict(re.findall(r"(\w+): (\S+)", line))
        assert told == {
            "Feature": "transaction.version",
            "SupportedMinVersion": "0",
            "SupportedMaxVersion": "2",
            "FinalizedVersionLevel": str(level),
            "Epoch": "1",
        }
