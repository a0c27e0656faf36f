"""Tests Produce in every version and with every refusal. Refused records must not be in the log."""

from __future__ import annotations

import uuid

import pytest

from offsets.partitioner import partition_for
from offsets.record_codec import run_records
from offsets.runs import OffsetRun
from protocol.errors import (
    CORRUPT_MESSAGE,
    INVALID_RECORD,
    INVALID_REQUIRED_ACKS,
    INVALID_TIMESTAMP,
    INVALID_TOPIC_EXCEPTION,
    MESSAGE_TOO_LARGE,
    NONE,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSUPPORTED_COMPRESSION_TYPE,
)
from protocol.records.batch import LOG_APPEND_TIME, assemble_batch, read_header
from protocol.records.message_set import encode as encode_message_set
from protocol.records.section import Record
from tests.broker.topic_calls import (
    create_topic,
    fetch,
    list_offset,
    metadata,
    produce,
    produce_request,
)
from tests.brokers import Broker
from tests.waiting import until
from tests.wire import Wire, batch, values_of

VERSIONS = range(14)


def records_for(version: int, *values: bytes) -> bytes:
    """Returns records in the format of this Produce version: a message set below version 3, a batch
    from version 3 on."""
    if version >= 3:
        return batch(*values)
    records = [Record(i, 1_000 + i, None, value) for i, value in enumerate(values)]
    return encode_message_set(records, 0 if version < 2 else 1)


@pytest.mark.parametrize("version", VERSIONS)
def test_produce_appends_and_returns_the_offset_in_every_version(
    wire: Wire, name: str, version: int
) -> None:
    topic_id = create_topic(wire, name)["topic_id"]
    produce(wire, name, batch(b"before"))

    answer = produce(
        wire, name, records_for(version, b"a", b"b"), version=version, topic_id=topic_id
    )

    assert (answer["error_code"], answer["base_offset"]) == (NONE, 1)
    assert answer["log_append_time_ms"] == -1
    assert answer["log_start_offset"] == (0 if version >= 5 else -1)
    assert values_of(fetch(wire, name)["records"]) == [b"before", b"a", b"b"]


@pytest.mark.parametrize("codec", [0, 1, 2, 3])
@pytest.mark.parametrize("version", [0, 2])
def test_compressed_message_set_is_stored_as_one_batch_of_magic_2(
    wire: Wire, name: str, version: int, codec: int
) -> None:
    create_topic(wire, name)
    records = [Record(i, 5_000, b"k", b"v%d" % i) for i in range(20)]
    data = encode_message_set(records, 0 if version < 2 else 1, codec)

    assert produce(wire, name, data, version=version)["error_code"] == NONE

    stored = fetch(wire, name)["records"]
    header = read_header(stored)
    assert (header.size_bytes, header.record_count) == (len(stored), 20)
    assert header.compression == codec
    assert values_of(stored) == [record.value for record in records]


@pytest.mark.parametrize("version", [3, 9, 13])
def test_produce_with_acks_0_is_appended_without_a_response(
    wire: Wire, name: str, version: int
) -> None:
    topic_id = create_topic(wire, name)["topic_id"]

    wire.send("Produce", version, produce_request(name, batch(b"quiet"), acks=0, topic_id=topic_id))

    assert values_of(fetch(wire, name)["records"]) == [b"quiet"]


def test_failed_produce_with_acks_0_closes_the_connection(wire: Wire, name: str) -> None:
    wire.send("Produce", 9, produce_request(name, batch(b"lost"), acks=0))

    assert wire.is_closed()


@pytest.mark.parametrize("acks", [2, -2, 7])
def test_produce_with_invalid_acks_is_refused(wire: Wire, name: str, acks: int) -> None:
    create_topic(wire, name)

    answer = produce(wire, name, acks=acks)

    assert (answer["error_code"], answer["base_offset"]) == (INVALID_REQUIRED_ACKS, -1)
    assert list_offset(wire, name, -1)["offset"] == 0


def test_produce_to_unknown_topic_or_partition_is_an_error(wire: Wire, name: str) -> None:
    create_topic(wire, name)

    assert produce(wire, f"{name}-not")["error_code"] == UNKNOWN_TOPIC_OR_PARTITION
    assert produce(wire, name, partition=1)["error_code"] == UNKNOWN_TOPIC_OR_PARTITION
    assert produce(wire, name, partition=-1)["error_code"] == UNKNOWN_TOPIC_OR_PARTITION


def test_produce_to_unknown_topic_id_returns_an_error_with_the_id(wire: Wire) -> None:
    unknown = uuid.uuid4().bytes

    answer = wire.call("Produce", 13, produce_request("", batch(b"v"), topic_id=unknown))

    (topic,) = answer["responses"]
    assert topic["topic_id"] == unknown
    assert topic["partition_responses"][0]["error_code"] == UNKNOWN_TOPIC_ID


def test_produce_writes_valid_partitions_when_one_partition_is_invalid(
    wire: Wire, name: str
) -> None:
    create_topic(wire, name, 2)
    request = produce_request(name, batch(b"good"))
    request["topic_data"][0]["partition_data"].append({"index": 1, "records": b"nonsense" * 10})

    answer = wire.call("Produce", 9, request)

    good, bad = answer["responses"][0]["partition_responses"]
    assert (good["error_code"], bad["error_code"]) == (NONE, CORRUPT_MESSAGE)
    assert list_offset(wire, name, -1, partition=1)["offset"] == 0


def test_batch_with_a_wrong_checksum_is_refused(wire: Wire, name: str) -> None:
    create_topic(wire, name)
    damaged = bytearray(batch(b"value"))
    damaged[-1] ^= 1

    assert produce(wire, name, bytes(damaged))["error_code"] == CORRUPT_MESSAGE
    assert list_offset(wire, name, -1)["offset"] == 0


def test_produce_v8_lists_the_invalid_records(wire: Wire, name: str) -> None:
    create_topic(wire, name, configs={"cleanup.policy": "compact"})

    answer = produce(wire, name, batch(b"no", b"keys"), version=8)

    assert answer["error_code"] == INVALID_RECORD
    assert [error["batch_index"] for error in answer["record_errors"]] == [0, 1]
    assert "without key" in answer["error_message"]


@pytest.mark.parametrize("version", [3, 6])
def test_produce_below_version_7_refuses_zstd(wire: Wire, name: str, version: int) -> None:
    create_topic(wire, name)
    data = batch(b"v" * 100, compression=4)

    assert produce(wire, name, data, version=version)["error_code"] == UNSUPPORTED_COMPRESSION_TYPE
    assert produce(wire, name, data, version=7)["error_code"] == NONE


def test_batch_above_max_message_bytes_of_the_topic_is_refused(wire: Wire, name: str) -> None:
    create_topic(wire, name, configs={"max.message.bytes": "1000"})

    assert produce(wire, name, batch(b"x" * 1000))["error_code"] == MESSAGE_TOO_LARGE
    assert produce(wire, name, batch(b"x" * 900))["error_code"] == NONE


def test_log_append_time_is_returned_and_stored(wire: Wire, name: str) -> None:
    create_topic(wire, name, configs={"message.timestamp.type": "LogAppendTime"})

    answer = produce(wire, name, batch(b"v", timestamp=5))

    header = read_header(fetch(wire, name)["records"])
    assert header.timestamp_type == LOG_APPEND_TIME
    assert header.max_timestamp == answer["log_append_time_ms"] > 1_600_000_000_000


def test_timestamp_older_than_the_topics_bound_is_refused(wire: Wire, name: str) -> None:
    create_topic(wire, name, configs={"message.timestamp.before.max.ms": "60000"})

    assert produce(wire, name, batch(b"old", timestamp=5))["error_code"] == INVALID_TIMESTAMP


def test_batch_is_stored_with_the_compression_type_of_the_topic(wire: Wire, name: str) -> None:
    create_topic(wire, name, configs={"compression.type": "gzip"})

    produce(wire, name, batch(b"plain" * 50))

    assert read_header(fetch(wire, name)["records"]).compression == 1


def test_min_insync_replicas_is_capped_at_the_number_of_replicas(wire: Wire, name: str) -> None:
    """Kafka has this cap since 3.9, so a server.properties for three brokers also works with
    acks=all on one broker."""
    create_topic(wire, name, configs={"min.insync.replicas": "2"})

    assert produce(wire, name, acks=-1)["error_code"] == NONE


@pytest.mark.parametrize(
    ("name", "client_id"),
    [
        ("__consumer_offsets", "wire"),
        ("__transaction_state", "wire"),
        ("__transaction_state", "__admin_client"),
        ("__share_group_state", "wire"),
        ("__share_group_state", "__admin_client"),
    ],
)
def test_produce_to_an_internal_topic_is_refused(wire: Wire, name: str, client_id: str) -> None:
    """As in Kafka, the admin client may write to the offsets topic. Only the coordinator may write
    to the transaction state topic."""
    metadata(wire, name)

    wire.client_id = client_id
    answer = produce(wire, name, batch(b"forged"))

    assert answer["error_code"] == INVALID_TOPIC_EXCEPTION


def sequenced(producer_id: int, sequence: int, *values: bytes) -> bytes:
    return batch(*values, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)


def test_repeated_batch_of_an_idempotent_producer_is_deduplicated(wire: Wire, name: str) -> None:
    create_topic(wire, name)
    answer = wire.call("InitProducerId", 4, {"transactional_id": None, "transaction_timeout_ms": 0})
    me = answer["producer_id"]
    produce(wire, name, sequenced(me, 0, b"a", b"b"))
    produce(wire, name, sequenced(me, 2, b"c"))

    again = produce(wire, name, sequenced(me, 0, b"a", b"b"))

    assert (again["error_code"], again["base_offset"]) == (NONE, 0)
    assert values_of(fetch(wire, name)["records"]) == [b"a", b"b", b"c"]


def test_sequence_gap_of_an_idempotent_producer_is_refused(wire: Wire, name: str) -> None:
    create_topic(wire, name)
    produce(wire, name, sequenced(77, 0, b"a"))

    assert produce(wire, name, sequenced(77, 2, b"c"))["error_code"] == OUT_OF_ORDER_SEQUENCE_NUMBER
    assert list_offset(wire, name, -1)["offset"] == 1


def test_admin_client_can_write_the_offsets_topic(broker: Broker, wire: Wire, name: str) -> None:
    """Kafka allows these writes. Muster loads the shard again, so that the written offsets apply
    immediately."""
    wire.call("FindCoordinator", 3, {"key": name, "key_type": 0})
    partition = partition_for(name, 50)
    run = OffsetRun(name, "t", (0,), (41,), (-1,), None, 1)
    section = run_records(run, 0)
    commit = assemble_batch(section, 1, 0, 1_000, 1_000)

    with Wire(broker.port, client_id="__admin_client") as admin:
        answer = produce(admin, "__consumer_offsets", commit, partition=partition)
        assert answer["error_code"] == NONE

    def committed() -> int:
        asked = {"group_id": name, "topics": [{"name": "t", "partition_indexes": [0]}]}
        answer = wire.call("OffsetFetch", 5, asked)
        partitions = answer["topics"][0]["partitions"] if answer["topics"] else []
        return partitions[0]["committed_offset"] if partitions else -1

    assert until("the offset that was written is the group's", lambda: committed() == 41)
