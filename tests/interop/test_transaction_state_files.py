"""Data directories with unfinished transactions. Kafka's tools read the directories. Kafka opens
the directories of Muster, and Muster opens those of Kafka.

A directory has complete, open and prepared transactions. Prepared means that EndTxn is answered but
no marker is written. A broker that opens the directory completes the prepared transactions, lets
the producers of open transactions continue, and aborts the transactions that timed out. The
transactions also contain offsets.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import java
from tests.broker import transactional_calls as calls
from tests.broker.transactional_calls import Pair
from tests.brokers import KIND, Broker, KafkaBroker, running
from tests.interop.cluster import Cluster
from tests.interop.committed_readers import seen
from tests.interop.test_dump_log_segments import dump
from tests.interop.test_round_trip import replace
from tests.waiting import until
from tests.wire import Wire
from transactions.states import BY_NUMBER

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(KIND == "kafka", reason="both brokers take part in any case"),
    pytest.mark.proves("transactions 47"),
]

TOPIC, OFFSETS, STATE = "data", "__consumer_offsets", "__transaction_state"
SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}
PREPARED = [f"prepared-{number}" for number in range(12)]
LATE_MS = 30_000
TRIES = 8
TV1, TV2 = 4, 5
"""The versions of EndTxn that clients send if the feature transaction.version has level 1 or level
2."""


def write(wire: Wire, name: str, **fields: int) -> Pair:
    """Begins a transaction that writes a record to each partition and commits an offset of the
    group ``name``."""
    producer = calls.begin(wire, name, **fields)
    calls.added(wire, name, producer, [(TOPIC, [0, 1])])
    for partition in (0, 1):
        value = f"{name}-{partition}".encode()
        sent = calls.send(wire, name, producer, TOPIC, partition, 0, 11, value)
        assert sent["error_code"] == 0, sent
    until("the group is added", lambda: calls.add_offsets(wire, name, producer, name) == 0)
    place = {"partition_index": 0, "committed_offset": 7, "committed_metadata": ""}
    asked = {
        "transactional_id": name,
        "group_id": name,
        "producer_id": producer[0],
        "producer_epoch": producer[1],
        "topics": [{"name": TOPIC, "partitions": [place]}],
    }

    def committed() -> bool:
        [topic] = wire.call("TxnOffsetCommit", 2, asked)["topics"]
        return bool(topic["partitions"][0]["error_code"] == 0)

    until("the offset is taken", committed)
    return producer


def fill(wire: Wire) -> dict[str, Pair]:
    """Creates transactions in each state. Returns the producers of the open transactions."""
    calls.find(wire, "any", calls.GROUP)
    for name, commit in (("committed", True), ("aborted", False)):
        code, _ = calls.end(wire, name, write(wire, name), commit, TV1)
        assert code == 0
        wanted = "CompleteCommit" if commit else "CompleteAbort"
        until(f"{name} is complete", lambda n=name, w=wanted: calls.state_of(wire, n) == w)
    return {
        "open": write(wire, "open", timeout_ms=600_000),
        "late": write(wire, "late", timeout_ms=LATE_MS),
        **{name: write(wire, name) for name in PREPARED},
    }


def prepare(wire: Wire, producers: dict[str, Pair]) -> None:
    """Sends EndTxn for each transaction in `PREPARED`, alternately with COMMIT and ABORT. Does not
    wait for the markers."""
    for number, name in enumerate(PREPARED):
        assert calls.end(wire, name, producers[name], number % 2 == 0, TV2)[0] == 0


def state_logs(data: Path) -> str:
    """Returns the output of DumpLogSegments for the logs of `__transaction_state`."""
    files = sorted(data.glob(f"{STATE}-*/*.log"))
    return dump(java.KAFKA_NEW, files, "--transaction-log-decoder")


def last_states(dumped: str) -> dict[str, str]:
    """Returns the state in the last record of each transactional id. The tool of 4.3.1 prints
    states as numbers, and that of 4.4.0 as names."""
    found = re.findall(r'"transactionalId":"([\w-]+)".*"transactionStatus":"?(\w+)', dumped)
    if java.RELEASE == "4.4.0":
        return dict(found)
    return {name: BY_NUMBER[int(number)].wire_name for name, number in found}


@pytest.fixture
def muster(tmp_path: Path) -> Iterator[Broker]:
    """Yields a Muster that writes no markers for the transactions that must stay prepared."""
    made = Broker(tmp_path / "muster" / "data", SETTINGS)
    made.command = [sys.executable, "tests/faults/no_markers.py"]
    yield made
    made.kill()


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[KafkaBroker]:
    """Yields Apache Kafka 4.3.1."""
    made = KafkaBroker(tmp_path / "kafka" / "data", SETTINGS)
    made.data.parent.mkdir()
    yield made
    made.kill()


def assert_completed(broker: Broker, producers: dict[str, Pair]) -> None:
    """Checks that prepared transactions are completed, open transactions continue, and transactions
    that timed out are aborted."""
    committed = {name for number, name in enumerate(PREPARED) if number % 2 == 0}
    with Wire(broker.port) as wire:
        calls.find(wire, "open")
        for name in PREPARED:
            wanted = "CompleteCommit" if name in committed else "CompleteAbort"
            until(f"{name} is complete", lambda n=name, w=wanted: calls.state_of(wire, n) == w)
        assert calls.state_of(wire, "open") == "Ongoing"
        code, _ = calls.end(wire, "open", producers["open"], True, TV2)
        assert code == 0, "its producer goes on where it was"
        until(
            "the late one is aborted",
            lambda: calls.state_of(wire, "late") == "CompleteAbort",
            LATE_MS / 1000 + 60,
        )
    committed |= {"committed", "open"}
    cluster = Cluster(broker.bootstrap)
    for partition in (0, 1):
        values = seen(broker.bootstrap, TOPIC, partition)
        assert sorted(values) == sorted(f"{name}-{partition}" for name in committed)
    for name in ("aborted", "late", *PREPARED, "committed", "open"):
        until("its offsets are stable", lambda n=name: stable(cluster, n))
        moved = {(TOPIC, 0): 7} if name in committed else {}
        assert cluster.committed(name) == moved, f"{name}: offsets move if the data does"


def stable(cluster: Cluster, group: str) -> bool:
    """Returns True if no transaction has a pending offset of the group."""
    asked = [{"name": TOPIC, "partition_indexes": [0]}]
    found = cluster.call("OffsetFetch", 7, group_id=group, topics=asked, require_stable=True)
    return not found["error_code"] and not found["topics"][0]["partitions"][0]["error_code"]


@pytest.mark.timeout(900)
def test_kafka_opens_a_muster_directory_with_unfinished_transactions(
    muster: Broker, kafka: KafkaBroker
) -> None:
    muster.start()
    with Wire(muster.port) as wire:
        calls.create_led(wire, TOPIC, 2)
        producers = fill(wire)
        prepare(wire, producers)
    muster.kill()

    states = last_states(state_logs(muster.data))
    expected = {"committed": "CompleteCommit", "aborted": "CompleteAbort"}
    expected |= {"open": "Ongoing", "late": "Ongoing"}
    ends = ("PrepareCommit", "PrepareAbort")
    expected |= {name: ends[number % 2] for number, name in enumerate(PREPARED)}
    assert states == expected
    offsets = dump(
        java.KAFKA_NEW, sorted(muster.data.glob(f"{OFFSETS}-*/*.log")), "--offsets-decoder"
    )
    for name in ("committed", "aborted", "open", *PREPARED):
        assert f'"group":"{name}"' in offsets
    assert offsets.count("endTxnMarker: COMMIT") == 1
    assert offsets.count("endTxnMarker: ABORT") == 1
    data = dump(java.KAFKA_NEW, sorted(muster.data.glob(f"{TOPIC}-*/*.log")), "--print-data-log")
    assert data.count("isTransactional: true isControl: false") == 2 * len(states)
    assert data.count("endTxnMarker: COMMIT") == data.count("endTxnMarker: ABORT") == 2

    kafka.start()
    with Wire(kafka.port) as wire:
        calls.create_led(wire, TOPIC, 2)
        calls.find(wire, "any", calls.GROUP)
        calls.find(wire, "any")
    kafka.stop()
    replaced = {file.parent.name for file in replace(muster.data, kafka.data)}
    assert {f"{topic}-{n}" for topic in (TOPIC, OFFSETS, STATE) for n in (0, 1)} <= replaced
    kafka.start()
    assert_completed(kafka, producers)


def left_by_kafka(data: Path) -> dict[str, Pair]:
    """Creates transactions in each state on Kafka and kills Kafka. Returns the producers of the
    open transactions."""
    data.parent.mkdir()
    kafka = KafkaBroker(data, SETTINGS)
    with running(kafka), Wire(kafka.port) as wire:
        calls.create_led(wire, TOPIC, 2)
        producers = fill(wire)
        prepare(wire, producers)
        kafka.kill()
    return producers


@pytest.mark.timeout(900)
def test_muster_opens_a_kafka_directory_with_unfinished_transactions(tmp_path: Path) -> None:
    """The test repeats the preparation if Kafka has written all markers before the kill."""
    for number in range(TRIES):
        data = tmp_path / f"kafka-{number}" / "data"
        producers = left_by_kafka(data)
        states = last_states(state_logs(data))
        if any(states[name].startswith("Prepare") for name in PREPARED):
            break
    else:
        raise AssertionError(f"no transaction is prepared: {states}")
    muster = Broker(data, SETTINGS)
    muster.start()
    try:
        assert_completed(muster, producers)
        with Wire(muster.port) as wire:  # a new producer gets an unused producer id
            taken, _ = calls.begin(wire, "new")
        assert taken not in {producer_id for producer_id, _ in producers.values()}
    finally:
        muster.kill()
