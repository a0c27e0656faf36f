"""Tests Fetch in every version: its fields, its limits, and its waiting time."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest

from protocol.errors import (
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    OFFSET_OUT_OF_RANGE,
    UNKNOWN_LEADER_EPOCH,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSUPPORTED_COMPRESSION_TYPE,
    UNSUPPORTED_VERSION,
)
from protocol.records.batch import encode_batch
from protocol.records.message_set import decode
from protocol.records.section import Record
from tests.broker.topic_calls import create_topic, fetch, fetch_request, produce, produce_request
from tests.brokers import Broker
from tests.wire import Wire, batch, values_of

VERSIONS = range(19)


def values_in(version: int, records: bytes) -> list[bytes | None]:
    if version >= 4:
        return values_of(records)
    magic = 0 if version < 2 else 1
    found = list(decode(records))
    assert {records[16]} == {magic}
    return [record.value for record in found]


@pytest.mark.parametrize("version", VERSIONS)
def test_fetch_reads_from_the_requested_offset_in_every_version(
    wire: Wire, name: str, version: int
) -> None:
    topic_id = create_topic(wire, name)["topic_id"]
    for value in (b"a", b"b", b"c"):
        produce(wire, name, batch(value))

    answer = fetch(wire, name, 1, version, topic_id=topic_id)

    assert (answer["error_code"], answer["high_watermark"]) == (NONE, 3)
    assert answer["last_stable_offset"] == (3 if version >= 4 else -1)
    assert answer["log_start_offset"] == (0 if version >= 5 else -1)
    assert values_in(version, answer["records"]) == [b"b", b"c"]


@pytest.mark.parametrize("version", VERSIONS)
def test_fetch_at_the_log_end_is_empty_without_an_error(
    wire: Wire, name: str, version: int
) -> None:
    topic_id = create_topic(wire, name)["topic_id"]
    produce(wire, name)

    answer = fetch(wire, name, 1, version, topic_id=topic_id)

    assert (answer["error_code"], answer["records"]) == (NONE, b"")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("offset", [-1, 2])
def test_fetch_of_an_offset_outside_the_log_returns_offset_out_of_range(
    wire: Wire, name: str, version: int, offset: int
) -> None:
    topic_id = create_topic(wire, name)["topic_id"]
    produce(wire, name)

    answer = fetch(wire, name, offset, version, topic_id=topic_id)

    assert (answer["error_code"], answer["high_watermark"]) == (OFFSET_OUT_OF_RANGE, -1)
    assert answer["log_start_offset"] == -1


def test_fetch_of_unknown_topic_partition_or_id_is_an_error(wire: Wire, name: str) -> None:
    create_topic(wire, name)

    assert fetch(wire, f"{name}-not")["error_code"] == UNKNOWN_TOPIC_OR_PARTITION
    assert fetch(wire, name, partition=1)["error_code"] == UNKNOWN_TOPIC_OR_PARTITION
    unknown = fetch(wire, "", version=13, topic_id=uuid.uuid4().bytes)
    assert unknown["error_code"] == UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("version", [9, 12, 18])
@pytest.mark.parametrize(
    ("epoch", "error_code"), [(-1, NONE), (0, NONE), (1, UNKNOWN_LEADER_EPOCH)]
)
def test_fetch_with_an_unknown_leader_epoch_is_an_error(
    wire: Wire, name: str, version: int, epoch: int, error_code: int
) -> None:
    topic_id = create_topic(wire, name)["topic_id"]

    answer = fetch(wire, name, 0, version, topic_id=topic_id, current_leader_epoch=epoch)

    assert answer["error_code"] == error_code


def test_fetch_returns_diverging_epoch_when_last_fetched_epoch_diverges(
    wire: Wire, name: str
) -> None:
    create_topic(wire, name)
    produce(wire, name)

    at_the_end = fetch(wire, name, 1, 12, last_fetched_epoch=0)
    beyond = fetch(wire, name, 5, 12, last_fetched_epoch=0)
    unknown = fetch(wire, name, 1, 12, last_fetched_epoch=3)

    assert at_the_end["diverging_epoch"] == {"epoch": -1, "end_offset": -1}
    assert beyond["diverging_epoch"] == {"epoch": 0, "end_offset": 1}
    assert unknown["error_code"] == OFFSET_OUT_OF_RANGE


def test_standalone_broker_refuses_a_fetch_request_that_a_replica_sends(
    wire: Wire, name: str
) -> None:
    create_topic(wire, name)

    assert fetch(wire, name, version=12, replica_id=2)["error_code"] == NOT_LEADER_OR_FOLLOWER


# -- bounds


def test_fetch_returns_the_whole_first_batch_when_it_exceeds_max_bytes(
    wire: Wire, name: str
) -> None:
    create_topic(wire, name)
    produce(wire, name, batch(b"x" * 5000))
    produce(wire, name, batch(b"y" * 5000))

    for version in (3, 4, 12):
        answer = fetch(wire, name, 0, version, partition_max_bytes=1, max_bytes=1)
        assert len(values_in(version, answer["records"])) == 1


def test_fetch_omits_the_records_of_a_second_partition_that_would_exceed_max_bytes(
    wire: Wire, name: str
) -> None:
    create_topic(wire, name, 2)
    for partition in (0, 1):
        produce(wire, name, batch(b"x" * 5000), partition=partition)
    request = fetch_request(name, max_bytes=6000)
    entry = request["topics"][0]["partitions"][0]
    request["topics"][0]["partitions"].append({**entry, "partition": 1})

    answer = wire.call("Fetch", 12, request)

    first, second = answer["responses"][0]["partitions"]
    assert len(values_of(first["records"])) == 1
    assert values_of(second["records"]) == []


def test_partition_max_bytes_bounds_the_records_of_a_partition(wire: Wire, name: str) -> None:
    create_topic(wire, name)
    for _ in range(10):
        produce(wire, name, batch(b"x" * 1000))

    answer = fetch(wire, name, partition_max_bytes=3300)

    assert len(values_of(answer["records"])) == 3


# -- isolation, codecs, old clients


@pytest.mark.parametrize("version", [4, 11, 12])
def test_only_read_committed_fetch_gets_an_aborted_transactions_list(
    wire: Wire, name: str, version: int
) -> None:
    create_topic(wire, name)
    produce(wire, name)

    committed = fetch(wire, name, 0, version, isolation_level=1)
    everything = fetch(wire, name, 0, version, isolation_level=0)

    assert committed["aborted_transactions"] == []
    assert everything["aborted_transactions"] is None
    assert committed["records"] == everything["records"]


@pytest.mark.parametrize("compression_type", ["producer", "zstd"])
@pytest.mark.parametrize("version", range(4, 19))
def test_fetch_from_version_4_returns_zstd_batches_as_stored(
    wire: Wire, name: str, version: int, compression_type: str
) -> None:
    configs = {"compression.type": compression_type}
    topic_id = create_topic(wire, name, configs=configs)["topic_id"]
    produce(wire, name, batch(b"plain"))
    produce(wire, name, batch(b"z" * 50, compression=4))

    for isolation_level in (0, 1):
        asked = {"topic_id": topic_id, "isolation_level": isolation_level}
        both = fetch(wire, name, 0, version, **asked)
        second = fetch(wire, name, 1, version, **asked)

        assert values_of(both["records"]) == [b"plain", b"z" * 50]
        assert (second["error_code"], values_of(second["records"])) == (NONE, [b"z" * 50])


@pytest.mark.parametrize("version", range(4))
def test_fetch_below_version_4_returns_records_before_a_zstd_batch_but_refuses_the_batch(
    old_client_broker: Broker, name: str, version: int
) -> None:
    with Wire(old_client_broker.port) as wire:
        create_topic(wire, name)
        produce(wire, name, batch(b"plain"))
        produce(wire, name, batch(b"z" * 50, compression=4))

        before = fetch(wire, name, 0, version)
        at = fetch(wire, name, 1, version)

    assert values_in(version, before["records"]) == [b"plain"]
    assert (at["error_code"], at["high_watermark"]) == (UNSUPPORTED_COMPRESSION_TYPE, -1)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_fetch_below_version_4_gets_message_sets_without_headers(
    wire: Wire, name: str, version: int
) -> None:
    create_topic(wire, name)
    records = [Record(i, 7_000 + i, b"k%d" % i, b"v%d" % i, (("h", b"x"),)) for i in range(3)]
    produce(wire, name, encode_batch(records, base_offset=0, compression=1))

    found = list(decode(fetch(wire, name, 0, version)["records"]))

    assert [(r.offset, r.key, r.value) for r in found] == [
        (r.offset, r.key, r.value) for r in records
    ]
    expected = [7_000, 7_001, 7_002] if version >= 2 else [-1, -1, -1]
    assert [r.timestamp for r in found] == expected


@pytest.mark.parametrize("version", [0, 3, 4])
def test_fetch_below_version_4_is_refused_with_down_conversion_disabled(
    wire: Wire, name: str, version: int
) -> None:
    create_topic(wire, name, configs={"message.downconversion.enable": "false"})
    produce(wire, name)

    error_code = fetch(wire, name, 0, version)["error_code"]

    assert error_code == (UNSUPPORTED_VERSION if version < 4 else NONE)


# -- waiting


def test_fetch_waits_for_max_wait_ms_when_no_record_arrives(wire: Wire, name: str) -> None:
    create_topic(wire, name)
    began = time.monotonic()

    answer = fetch(wire, name, max_wait_ms=300)

    assert time.monotonic() - began >= 0.29
    assert (answer["error_code"], answer["records"]) == (NONE, b"")


def test_waiting_fetch_is_answered_when_a_record_is_appended(
    wire: Wire, broker: Broker, name: str
) -> None:
    create_topic(wire, name)
    wire.send("Fetch", 12, fetch_request(name, max_wait_ms=60_000))

    with Wire(broker.port) as other:
        produce(other, name, batch(b"news"))
    _, answer = wire.receive()

    assert values_of(answer["responses"][0]["partitions"][0]["records"]) == [b"news"]


def test_fetch_waits_for_min_bytes(wire: Wire, broker: Broker, name: str) -> None:
    create_topic(wire, name)
    wire.send("Fetch", 12, fetch_request(name, max_wait_ms=60_000, min_bytes=1000))

    with Wire(broker.port) as other:
        for _ in range(3):
            produce(other, name, batch(b"x" * 300))
    _, answer = wire.receive()

    assert len(values_of(answer["responses"][0]["partitions"][0]["records"])) == 3


MUCH: dict[str, Any] = {"min_bytes": 8 << 20, "max_bytes": 16 << 20, "partition_max_bytes": 8 << 20}
"""Fetch limits that are larger than the log."""
HALF_A_SEGMENT = batch(b"x" * 600_000)


def two_segments(wire: Wire, name: str) -> None:
    create_topic(wire, name, configs={"segment.bytes": str(1 << 20)})
    for records in (HALF_A_SEGMENT, batch(b"last"), HALF_A_SEGMENT):
        produce(wire, name, records)


@pytest.mark.parametrize("version", [0, 3, 4, 12])
@pytest.mark.parametrize(("offset", "records"), [(0, 2), (1, 1)])
def test_fetch_does_not_wait_when_its_offset_is_in_an_older_segment(
    wire: Wire, name: str, version: int, offset: int, records: int
) -> None:
    two_segments(wire, name)

    answer = fetch(wire, name, offset, version, max_wait_ms=60_000, **MUCH)

    assert len(values_in(version, answer["records"])) == records


def test_waiting_fetch_is_answered_when_a_new_segment_is_created(
    wire: Wire, broker: Broker, name: str
) -> None:
    create_topic(wire, name, configs={"segment.bytes": str(1 << 20)})
    produce(wire, name, HALF_A_SEGMENT)
    wire.send("Fetch", 12, fetch_request(name, max_wait_ms=60_000, **MUCH))

    with Wire(broker.port) as other:
        produce(other, name, HALF_A_SEGMENT)
    _, answer = wire.receive()

    assert len(values_of(answer["responses"][0]["partitions"][0]["records"])) == 1


def test_later_requests_of_a_connection_are_answered_after_its_waiting_fetch(
    wire: Wire, broker: Broker, name: str
) -> None:
    create_topic(wire, name)
    first = wire.send("Fetch", 12, fetch_request(name, max_wait_ms=60_000))
    second = wire.send("Produce", 9, produce_request(name, batch(b"mine")))

    with Wire(broker.port) as other:
        assert produce(other, name, batch(b"news"))["base_offset"] == 0

    assert [wire.receive()[0], wire.receive()[0]] == [first, second]


def test_fetch_with_an_error_does_not_wait(wire: Wire, name: str) -> None:
    answer = fetch(wire, f"{name}-not", max_wait_ms=60_000)

    assert answer["error_code"] == UNKNOWN_TOPIC_OR_PARTITION


def test_waiting_fetch_is_answered_when_its_topic_is_deleted(
    wire: Wire, broker: Broker, name: str
) -> None:
    create_topic(wire, name)
    wire.send("Fetch", 12, fetch_request(name, max_wait_ms=60_000))

    with Wire(broker.port) as other:
        other.call("DeleteTopics", 5, {"topic_names": [name], "timeout_ms": 1000})
    _, answer = wire.receive()

    partition = answer["responses"][0]["partitions"][0]
    assert partition["error_code"] == UNKNOWN_TOPIC_OR_PARTITION


def test_waiting_fetch_of_offsets_topic_is_answered_by_an_offset_commit(
    wire: Wire, broker: Broker, name: str
) -> None:
    create_topic(wire, name)
    wire.call("FindCoordinator", 3, {"key": name, "key_type": 0})
    from offsets.partitioner import partition_for

    partition = partition_for(name, 50)
    end = fetch(wire, "__consumer_offsets", partition=partition)["high_watermark"]
    wire.send(
        "Fetch", 12,
        fetch_request("__consumer_offsets", end, partition=partition, max_wait_ms=60_000),
    )  # fmt: skip

    with Wire(broker.port) as other:
        commit = {"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}
        other.call(
            "OffsetCommit", 7,
            {
                "group_id": name, "generation_id_or_member_epoch": -1, "member_id": "",
                "topics": [{"name": name, "partitions": [commit]}],
            },
        )  # fmt: skip
    _, answer = wire.receive()

    assert answer["responses"][0]["partitions"][0]["high_watermark"] == end + 1
