"""Tests consumers with read_committed: the end of the returned records, aborted transactions, and
waiting fetches."""

from __future__ import annotations

import time
from typing import Any

import pytest

from protocol.errors import NONE
from protocol.records.stored import iter_stored, stored_records
from tests.broker.topic_calls import create_topic, fetch, fetch_request, list_offset, produce
from tests.broker.transactional import (
    TransactionalProducer,
    committed_values,
    ended,
    initialized,
    last_stable_offset,
)
from tests.brokers import Broker
from tests.wire import Wire, batch, values_of

VERSIONS = range(4, 17)
WITH_IDS = 13


def open_transaction(
    wire: Wire, name: str, *values: bytes, rules: int = 2
) -> TransactionalProducer:
    """Begins a transaction in the topic. Returns its producer."""
    producer = initialized(wire, f"{name}-{time.monotonic_ns()}", rules)
    if rules == 1:
        producer.add({name: [0]})
    assert producer.produce(name, *values)["error_code"] == NONE
    return producer


def plain(*values: bytes) -> bytes:
    """Returns a non-transactional batch with the current time. A much older time would roll the
    segment."""
    return batch(*values, timestamp=int(time.time() * 1000))


def aborted_of(answer: dict[str, Any]) -> list[tuple[int, int]]:
    return [(each["producer_id"], each["first_offset"]) for each in answer["aborted_transactions"]]


# -- the last stable offset


@pytest.mark.parametrize("version", VERSIONS)
def test_read_committed_fetch_ends_before_an_open_transaction(
    wire: Wire, name: str, version: int
) -> None:
    topic_id = create_topic(wire, name)["topic_id"]
    produce(wire, name, plain(b"before"))
    producer = open_transaction(wire, name, b"open")
    produce(wire, name, plain(b"behind"))

    committed = fetch(wire, name, 0, version, topic_id=topic_id, isolation_level=1)
    everything = fetch(wire, name, 0, version, topic_id=topic_id, isolation_level=0)

    assert values_of(committed["records"]) == [b"before"]
    assert values_of(everything["records"]) == [b"before", b"open", b"behind"]
    for answer in committed, everything:
        assert (answer["high_watermark"], answer["last_stable_offset"]) == (3, 1)
    assert (committed["aborted_transactions"], everything["aborted_transactions"]) == ([], None)
    assert producer.end(commit=False) == NONE


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("offset", [1, 2, 3])
def test_read_committed_fetch_from_the_last_stable_offset_is_empty(
    wire: Wire, name: str, version: int, offset: int
) -> None:
    topic_id = create_topic(wire, name)["topic_id"]
    produce(wire, name, plain(b"before"))
    producer = open_transaction(wire, name, b"a", b"b")

    answer = fetch(wire, name, offset, version, topic_id=topic_id, isolation_level=1)

    assert (answer["error_code"], answer["records"] or b"") == (NONE, b"")
    assert answer["last_stable_offset"] == 1
    assert producer.end(commit=False) == NONE


@pytest.mark.proves("transactions 20")
@pytest.mark.parametrize("rules", [1, 2])
def test_log_end_offset_is_after_the_last_marker(wire: Wire, name: str, rules: int) -> None:
    create_topic(wire, name)
    producer = open_transaction(wire, name, b"a", b"b", rules=rules)
    assert list_offset(wire, name, -1)["offset"] == 2
    assert producer.end(commit=True) == NONE
    ended(wire, name)

    answer = fetch(wire, name, isolation_level=1)

    assert committed_values(answer) == [b"a", b"b"]
    assert list_offset(wire, name, -1, isolation_level=1)["offset"] == 3
    assert fetch(wire, name, 3, isolation_level=1)["error_code"] == NONE


# -- aborted transactions


@pytest.mark.proves("transactions 17")
def test_fetch_lists_each_aborted_transaction_once_by_first_offset(wire: Wire, name: str) -> None:
    create_topic(wire, name, configs={"segment.bytes": "300"})
    first = open_transaction(wire, name, b"first")
    second = open_transaction(wire, name, b"second")
    for _ in range(5):  # so that the log has several segments
        produce(wire, name, plain(b"x" * 200))
    third = open_transaction(wire, name, b"third")
    assert (third.end(commit=False), second.end(commit=False)) == (NONE, NONE)
    assert first.end(commit=False) == NONE
    ended(wire, name)
    both = [(first.producer_id, 0), (second.producer_id, 1)]

    from_the_beginning = fetch(wire, name, 0, isolation_level=1)
    behind_both = fetch(wire, name, 2, isolation_level=1)
    end = from_the_beginning["high_watermark"]

    assert aborted_of(from_the_beginning) == both, "none that begins behind the bytes"
    assert aborted_of(behind_both) == both, "their markers are still to come"
    everything: list[bytes] = []
    offset, told = 0, set()
    while offset < end:
        answer = fetch(wire, name, offset, isolation_level=1)
        told.update(aborted_of(answer))
        everything += committed_values(answer)
        offset = next_offset(answer)
    assert told == {*both, (third.producer_id, 7)}
    assert everything == [b"x" * 200] * 5


def next_offset(answer: dict[str, Any]) -> int:
    return max(header.last_offset for header, _ in iter_stored(answer["records"], partial=True)) + 1


@pytest.mark.parametrize("version", VERSIONS)
def test_read_committed_fetch_separates_committed_and_aborted_transactions_of_a_producer(
    wire: Wire, name: str, version: int
) -> None:
    topic_id = create_topic(wire, name)["topic_id"]
    producer = initialized(wire, name, rules=1)
    for number in range(4):
        producer.add({name: [0]})
        producer.produce(name, b"%d" % number)
        assert producer.end(commit=number % 2 == 0) == NONE
        ended(wire, name)

    answer = fetch(wire, name, version=version, topic_id=topic_id, isolation_level=1)

    assert aborted_of(answer) == [(producer.producer_id, 2), (producer.producer_id, 6)]
    assert committed_values(answer) == [b"0", b"2"]


@pytest.mark.parametrize("version", range(4))
def test_fetch_below_version_4_gets_all_records_without_markers(
    wire: Wire, name: str, version: int
) -> None:
    create_topic(wire, name)
    for commit in (False, True):
        producer = open_transaction(wire, name, b"aborted" if not commit else b"committed")
        assert producer.end(commit=commit) == NONE
        ended(wire, name)
    produce(wire, name, plain(b"plain"))

    answer = fetch(wire, name, version=version)

    data = answer["records"]
    values = [
        record.value for header, _ in iter_stored(data) for record in stored_records(data, header)
    ]
    assert values == [b"aborted", b"committed", b"plain"]


# -- waiting


@pytest.mark.proves("transactions 19")
@pytest.mark.parametrize("rules", [1, 2])
def test_waiting_read_committed_fetch_is_not_answered_before_the_marker(
    broker: Broker, wire: Wire, name: str, rules: int
) -> None:
    """The bytes of open transactions do not count for min_bytes."""
    create_topic(wire, name)
    producer = open_transaction(wire, name, b"0", rules=rules)
    with Wire(broker.port) as reader:
        asked = fetch_request(name, 0, max_wait_ms=30_000, min_bytes=1, isolation_level=1)
        reader.send("Fetch", 12, asked)
        for number in range(1, 20):
            producer.produce(name, b"%d" % number)
        reader.socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            reader.socket.recv(1)
        reader.socket.settimeout(20)
        since = time.monotonic()
        assert producer.end(commit=True) == NONE
        _, answer = reader.receive()
        waited_s = time.monotonic() - since

    entry = answer["responses"][0]["partitions"][0]
    assert committed_values(entry) == [b"%d" % number for number in range(20)]
    assert waited_s < 5, "30 s is how long it would have waited for nothing"


def test_read_committed_fetch_waits_at_last_stable_offset_in_old_segment(
    wire: Wire, name: str
) -> None:
    create_topic(wire, name, configs={"segment.bytes": str(1 << 20)})
    produce(wire, name, plain(b"x" * 600_000))
    open_transaction(wire, name, b"open")
    produce(wire, name, plain(b"x" * 600_000))
    much = {"min_bytes": 8 << 20, "max_bytes": 16 << 20, "partition_max_bytes": 8 << 20}

    wire.send("Fetch", 12, fetch_request(name, max_wait_ms=60_000, isolation_level=1, **much))

    wire.socket.settimeout(0.2)
    with pytest.raises(TimeoutError):
        wire.receive()


def test_incremental_fetch_returns_records_when_the_transaction_ends(wire: Wire, name: str) -> None:
    create_topic(wire, name)
    producer = open_transaction(wire, name, b"a")
    whole = wire.call("Fetch", 12, fetch_request(name, 0, isolation_level=1, session_epoch=0))
    session = {"isolation_level": 1, "session_id": whole["session_id"]}

    def incremental(epoch: int, **fields: Any) -> dict[str, Any]:
        asked = {**fetch_request(name, 0, **fields), **session, "session_epoch": epoch}
        return wire.call("Fetch", 12, {**asked, "topics": []})

    assert incremental(1)["responses"] == [], "nothing has changed"
    assert producer.end(commit=True) == NONE
    answer = incremental(2, max_wait_ms=20_000)

    assert committed_values(answer["responses"][0]["partitions"][0]) == [b"a"]


# -- offsets by time


@pytest.mark.parametrize("version", range(2, 12))
def test_list_offsets_with_read_committed_ends_at_the_last_stable_offset(
    wire: Wire, name: str, version: int
) -> None:
    create_topic(wire, name)
    produce(wire, name, batch(b"before", timestamp=1_000))
    producer = initialized(wire, name)
    producer.produce(name, b"open", timestamp=2_000)
    produce(wire, name, batch(b"behind", timestamp=3_000))

    def listed(timestamp: int, isolation_level: int) -> tuple[int, int]:
        entry = list_offset(wire, name, timestamp, version, isolation_level=isolation_level)
        assert entry["error_code"] == NONE
        return entry["offset"], entry["timestamp"]

    assert (listed(-1, 0), listed(-1, 1)) == ((3, -1), (1, -1))
    assert listed(-2, 0) == listed(-2, 1) == (0, -1)
    assert listed(500, 0) == listed(500, 1) == (0, 1_000)
    assert (listed(2_000, 0), listed(2_000, 1)) == ((1, 2_000), (-1, -1))
    if version >= 7:
        assert (listed(-3, 0), listed(-3, 1)) == ((2, 3_000), (-1, -1))
    assert producer.end(commit=True) == NONE
    ended(wire, name)
    assert listed(-1, 1) == (4, -1)
    assert listed(2_000, 1) == (1, 2_000)


# -- producers


def test_describe_producers_returns_the_start_of_the_open_transaction(
    wire: Wire, name: str
) -> None:
    create_topic(wire, name)
    produce(wire, name, plain(b"before"))
    producer = open_transaction(wire, name, b"a")
    asked = {"topics": [{"name": name, "partition_indexes": [0]}]}

    def described() -> dict[str, Any]:
        [topic] = wire.call("DescribeProducers", 0, asked)["topics"]
        [entry] = topic["partitions"][0]["active_producers"]
        return dict(entry)

    open_now = described()
    epoch = producer.epoch
    assert producer.end(commit=True) == NONE
    ended(wire, name)
    completed = described()

    assert (open_now["producer_epoch"], open_now["current_txn_start_offset"]) == (epoch, 1)
    assert (open_now["coordinator_epoch"], open_now["last_sequence"]) == (-1, 0)
    assert (completed["producer_epoch"], completed["current_txn_start_offset"]) == (epoch + 1, -1)
    assert completed["coordinator_epoch"] >= 0
    assert completed["last_sequence"] == -1, "the next transaction begins with sequence number 0"
    assert last_stable_offset(wire, name) == 3
