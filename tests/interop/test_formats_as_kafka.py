"""Produce and Fetch convert between message formats as Kafka does.

Apache Kafka 3.9.2 in ZooKeeper mode supports `message.format.version` with an older inter-broker
protocol. Both brokers receive the same requests. Their responses and records are compared.

The brokers differ on purpose in three cases. Old formats cannot contain record headers or zstd:
Muster returns an error, and Kafka fails internally. Muster rejects bytes after the last complete
message. Muster accepts several compressed messages in one request, which Kafka has rejected since
2.0.
"""

from __future__ import annotations

import shutil
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from log.config import LogConfig
from log.files.filesystem import OsFileSystem
from log.partition_log import PartitionLog
from protocol.errors import INVALID_REPLICATION_FACTOR, NONE, UNKNOWN_TOPIC_OR_PARTITION
from protocol.records.batch import encode_batch
from protocol.records.compression import compress
from protocol.records.crc import crc32, crc32c
from protocol.records.message_set import encode
from protocol.records.section import Record
from protocol.records.stored import iter_stored, stored_records
from tests.broker.config_calls import SET, alter
from tests.broker.topic_calls import create_topic, fetch, list_offset, produce
from tests.brokers import KIND, Broker, running
from tests.interop.differential.brokers import ZooKeeperKafka
from tests.waiting import until
from tests.wire import Wire

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(KIND == "kafka", reason="Kafka would be compared with itself"),
]
OLD_PROTOCOL = {"inter.broker.protocol.version": "2.8"}
NOW = int(time.time() * 1000) - 60_000
APPENDED_SINCE = NOW + 30_000
"""A time in ms, later than the timestamps that producers set in these tests. A timestamp from this
time on must be a log append time."""
RECORDS = [Record(i, NOW + i, b"k%d" % i, b"v" * 30) for i in range(4)]
KEYLESS = [RECORDS[0], RECORDS[1]._replace(key=None)]
NULL = [Record(0, NOW, None, None)]
LARGE = [Record(0, NOW, b"k", bytes(3000))]
TIMELESS = [record._replace(timestamp=-1) for record in RECORDS]
ANCIENT = [RECORDS[0], RECORDS[1]._replace(timestamp=5)]

SETTINGS: list[dict[str, str]] = [
    {},
    {"message.timestamp.type": "LogAppendTime"},
    {"compression.type": "lz4"},
    {"compression.type": "uncompressed"},
    {"message.timestamp.difference.max.ms": "3600000"},
    {"cleanup.policy": "compact"},
    {"max.message.bytes": "1000"},
]


def with_count(count: int, data: bytes) -> bytes:
    """Returns a batch whose header has the record count ``count`` and a correct CRC."""
    raw = bytearray(data)
    struct.pack_into(">i", raw, 57, count)
    struct.pack_into(">I", raw, 17, crc32c(raw[21:]))
    return bytes(raw)


def flipped(data: bytes) -> bytes:
    return data[:-1] + bytes((data[-1] ^ 1,))


def wrapped(inner: bytes) -> bytes:
    """Returns a message of magic 1 with gzip compression whose value is ``inner``."""
    value = compress(1, inner, 1)
    body = struct.pack(">bbqii", 1, 1, NOW + 3, -1, len(value)) + value
    return struct.pack(">qi", 3, len(body) + 4) + crc32(body).to_bytes(4, "big") + body


ALL_AT_0 = b"".join(encode([record._replace(offset=0)], 1) for record in RECORDS)
BATCH = encode_batch(RECORDS)

# description                        version  records
SENT: list[tuple[str, int, bytes]] = [
    *((f"magic 0, codec {c}", 0, encode(RECORDS, 0, c)) for c in range(4)),
    *((f"magic 0 in v2, codec {c}", 2, encode(RECORDS, 0, c)) for c in range(4)),
    *((f"magic 1, codec {c}", 2, encode(RECORDS, 1, c)) for c in range(4)),
    *((f"a batch in v3, codec {c}", 3, encode_batch(RECORDS, compression=c)) for c in range(4)),
    *((f"a batch in v9, codec {c}", 9, encode_batch(RECORDS, compression=c)) for c in range(4)),
    ("magic 1 in v0", 0, encode(RECORDS, 1)),
    ("a batch in v2", 2, BATCH),
    ("magic 1 in v3", 3, encode(RECORDS, 1)),
    ("two magics", 2, encode(RECORDS[:2], 0) + encode(RECORDS[2:], 1)),
    ("zstd in v6", 6, encode_batch(RECORDS, compression=4)),
    ("idempotent", 9, encode_batch(RECORDS, producer_id=7, producer_epoch=0, base_sequence=0)),
    ("inner offsets of 0", 2, wrapped(ALL_AT_0)),
    ("another time outside", 2, encode(RECORDS, 1, 1, append_time=NOW - 5)),
    ("nothing", 2, b""),
    ("a wrong CRC in magic 0", 0, flipped(encode(RECORDS, 0))),
    ("a wrong CRC in magic 1", 2, flipped(encode(RECORDS, 1))),
    ("a wrong CRC inside", 2, wrapped(flipped(encode(RECORDS, 1)))),
    ("a wrong CRC in a batch", 9, flipped(BATCH)),
    ("base offset 5", 9, encode_batch([RECORDS[0]._replace(offset=5)])),
    ("a wrong count", 9, with_count(2, BATCH)),
    ("control", 9, encode_batch(RECORDS, is_control=True)),
    ("no times", 9, encode_batch(TIMELESS)),
    ("no times in magic 1", 2, encode(TIMELESS, 1)),
    ("an ancient record", 9, encode_batch(ANCIENT)),
    ("an ancient record in magic 1", 2, encode(ANCIENT, 1)),
    ("no key", 9, encode_batch(KEYLESS)),
    ("no key in magic 1", 2, encode(KEYLESS, 1)),
    ("nulls", 9, encode_batch(NULL)),
    ("nulls in magic 1", 2, encode(NULL, 1)),
    ("nulls in snappy", 2, encode(NULL, 1, 2)),
    ("large", 9, encode_batch(LARGE)),
    ("large in magic 1", 2, encode(LARGE, 1)),
    ("large, but not in gzip", 2, encode(LARGE, 1, 1)),
]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Broker]]:
    """Yields Muster and Apache Kafka."""
    folder: Path = tmp_path_factory.mktemp("formats")
    (folder / "kafka").mkdir()
    muster = Broker(folder / "muster")
    kafka = ZooKeeperKafka(folder / "kafka" / "data", OLD_PROTOCOL)
    with running(muster, kafka):
        yield muster, kafka


def create_led(wire: Wire, topic: str, configs: dict[str, str]) -> None:
    """Creates a topic and waits until its partition has a leader."""

    def made() -> bool:
        error_code = create_topic(wire, topic, configs=configs)["error_code"]
        assert error_code in (NONE, INVALID_REPLICATION_FACTOR)  # brokers unknown yet
        return bool(error_code == NONE)

    until("the topic is made", made)

    def leads() -> bool:
        error_code = list_offset(wire, topic, -1, version=1)["error_code"]
        assert error_code in (NONE, UNKNOWN_TOPIC_OR_PARTITION)
        return bool(error_code == NONE)

    until("the partition is served", leads)


def answer_to(wire: Wire, topic: str, version: int, records: bytes) -> tuple[Any, ...]:
    """Sends a Produce request. Returns error code, rejected records, base offset, and whether the
    response has a timestamp."""
    answer = produce(wire, topic, records, version=version)
    blamed = [error["batch_index"] for error in answer["record_errors"]] if version >= 8 else []
    timed = version >= 2 and answer["log_append_time_ms"] > 0
    return answer["error_code"], blamed, answer["base_offset"], timed


def fetched(wire: Wire, topic: str, version: int, offset: int) -> tuple[Any, ...]:
    """Sends a Fetch request. Returns error code, high watermark, and each record with its message
    format."""
    answer = fetch(wire, topic, offset, version)
    data = answer["records"] or b""
    return (
        answer["error_code"],
        answer["high_watermark"],
        [
            (entry.magic, entry.compression, entry.timestamp_type, *_timeless(record))
            for entry, _ in iter_stored(data, partial=True)
            for record in stored_records(data, entry)
        ],
    )


def _timeless(record: Record) -> tuple[Any, ...]:
    time_ms = "appended" if record.timestamp > APPENDED_SINCE else record.timestamp
    return record.offset, time_ms, record.key, record.value


def looked_up(wire: Wire, topic: str, timestamp: int) -> tuple[Any, ...]:
    answer = list_offset(wire, topic, timestamp, version=5)
    time_ms = "appended" if answer["timestamp"] > APPENDED_SINCE else answer["timestamp"]
    return answer["error_code"], answer["offset"], time_ms


@pytest.mark.parametrize("settings", SETTINGS, ids=[next(iter(s), "default") for s in SETTINGS])
@pytest.mark.parametrize("format_version", ["0.9.0", "0.10.2", "2.8"])
def test_produce_and_fetch_responses_for_each_message_format_equal_those_of_kafka(
    both: tuple[Wire, Wire], name: str, format_version: str, settings: dict[str, str]
) -> None:
    for wire in both:
        create_led(wire, name, {"message.format.version": format_version, **settings})

    for what, version, records in SENT:
        ours, kafkas = (answer_to(wire, name, version, records) for wire in both)
        assert ours == kafkas, what

    end = list_offset(both[0], name, -1)["offset"]
    assert end > 50
    for version in (0, 2, 4, 10, 12):
        for offset in (0, 3, 6, 17, 42, end - 1, end, end + 1):
            ours, kafkas = (fetched(wire, name, version, offset) for wire in both)
            if format_version == "2.8" and version < 4 and kafkas[2]:
                # Kafka's response has the length of the unconverted records, so its end may be
                # missing.
                ours[2][len(kafkas[2]) :] = []
            assert ours == kafkas, (version, offset)
    for timestamp in (0, NOW, NOW + 2, NOW + 10**9, -1, -2):
        ours, kafkas = (looked_up(wire, name, timestamp) for wire in both)
        assert ours == kafkas, timestamp - NOW


def test_fetch_of_message_sets_ends_before_zstd_batches_as_in_kafka(
    both: tuple[Wire, Wire], name: str
) -> None:
    for wire in both:
        create_led(wire, name, {})
        for codec in (0, 4, 0):
            answer_to(wire, name, 9, encode_batch(RECORDS, compression=codec))

    for version in range(10):
        for offset in (0, 4, 8, 12):
            ours, kafkas = (fetched(wire, name, version, offset) for wire in both)
            if version < 4 and ours[2]:  # Kafka pads the response
                assert len(ours[2]) == 4
                assert ours[2] == kafkas[2][:4]
            else:
                assert ours == kafkas, (version, offset)


def test_log_of_kafka_in_all_formats_is_opened_and_read(
    pair: tuple[Broker, Broker], both: tuple[Wire, Wire], name: str, tmp_path: Path
) -> None:
    _, wire = both
    create_led(wire, name, {"index.interval.bytes": "100"})
    for format_version in ("0.9.0", "0.10.2", "2.8", "0.10.2", "0.9.0"):
        change = ("message.format.version", SET, format_version)
        assert alter(wire, name, change) == (NONE, None)
        for codec in range(4):
            for version, records in (
                (0, encode(RECORDS, 0, codec)),
                (2, encode(RECORDS, 1, codec)),
                (9, encode_batch(RECORDS, compression=codec)),
            ):
                assert answer_to(wire, name, version, records)[0] == NONE
    folder = tmp_path / f"{name}-0"
    shutil.copytree(pair[1].partition_folder(name, 0), folder)

    for clean in (False, True):  # the second time with the index that the first open has written
        log = PartitionLog.open(OsFileSystem(), str(folder), name, 0, LogConfig(), clean=clean)
        assert log.recovery.cuts == []
        assert log.log_end_offset == list_offset(wire, name, -1)["offset"] == 5 * 4 * 3 * 4
        stored = [
            (entry.magic, entry.compression, entry.timestamp_type, *_timeless(record))
            for buffer, entry in log.scan()
            for record in stored_records(buffer, entry)
        ]
        assert {entry[0] for entry in stored} == {0, 1, 2}
        assert stored == fetched(wire, name, 12, 0)[2]
        for offset in range(log.log_end_offset):
            place = log.active.locate(offset)
            assert place is not None
            assert offset <= place.last_offset < offset + len(RECORDS)
        for timestamp in range(NOW, NOW + 5):
            found = log.offset_for_timestamp(timestamp)
            expected = list_offset(wire, name, timestamp, version=5)
            where = (-1, -1) if found is None else (found.timestamp_ms, found.offset)
            if expected["error_code"] == NONE:
                assert where == (expected["timestamp"], expected["offset"])
        log.close()
