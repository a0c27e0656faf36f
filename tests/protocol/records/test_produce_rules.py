"""Tests of the validation of Produce requests: a table of refused requests, and the changes that
the broker makes to accepted records."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from protocol.errors import (
    CORRUPT_MESSAGE,
    INVALID_RECORD,
    INVALID_TIMESTAMP,
    MESSAGE_TOO_LARGE,
    NAMES,
    RECORD_LIST_TOO_LARGE,
    UNSUPPORTED_COMPRESSION_TYPE,
)
from protocol.records import message_set
from protocol.records.batch import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    encode_batch,
    iter_batches,
    read_header,
    records_of,
    validate_batch,
)
from protocol.records.corrupt import CorruptRecords
from protocol.records.crc import crc32c
from protocol.records.produce import analyse
from protocol.records.produce_rules import RECORD_ERRORS_MAX, ProduceRules
from protocol.records.section import Record

NOON = 1_700_000_000_000
DAY_MS = 86_400_000
RECORDS = [Record(i, NOON + i, b"k%d" % i, b"v" * 20) for i in range(3)]
NO_KEYS = [record._replace(key=None if record.offset else b"k") for record in RECORDS]
BATCH = encode_batch(RECORDS)
OLD_SET = message_set.encode(RECORDS, 1)


def patched(position: int, layout: str, value: int, data: bytes = BATCH) -> bytes:
    """Returns ``data`` with one changed header field and the correct CRC."""
    raw = bytearray(data)
    struct.pack_into(layout, raw, position, value)
    struct.pack_into(">I", raw, 17, crc32c(raw[21:]))
    return bytes(raw)


def flipped(data: bytes) -> bytes:
    return data[:-1] + bytes((data[-1] ^ 1,))


DEFAULT = ProduceRules()
COMPACTED = ProduceRules(compacted=True)
BOUNDED = ProduceRules(timestamp_before_max_ms=DAY_MS, timestamp_after_max_ms=0)


def small(size: int) -> ProduceRules:
    return ProduceRules(max_message_bytes=size)


ZSTD = encode_batch(RECORDS, compression=4)
GZIP = encode_batch(RECORDS, compression=1)
CONTROL = encode_batch(RECORDS, is_control=True)
SHUFFLED = encode_batch([RECORDS[0], RECORDS[2], RECORDS[1]], last_offset=2)
AT_OFFSET_5 = encode_batch([RECORDS[0]._replace(offset=5)])
EMPTY = encode_batch([], base_offset=0, last_offset=0)
COUNT_4 = patched(57, ">i", 4, patched(23, ">i", 3))
NO_SEQUENCE = encode_batch(RECORDS, producer_id=7, producer_epoch=0)
SEQUENCE = encode_batch(RECORDS, producer_id=7, producer_epoch=0, base_sequence=0)
APPEND_TIME = encode_batch(RECORDS, timestamp_type=LOG_APPEND_TIME)
OLD_APPEND_TIME = message_set.encode(RECORDS, 1, timestamp_type=LOG_APPEND_TIME)
NO_KEYS_BATCH = encode_batch(NO_KEYS)
NO_KEYS_GZIP = encode_batch(NO_KEYS, compression=1)
NO_KEYS_OLD = message_set.encode(NO_KEYS, 1)
NO_STAMPS = encode_batch([r._replace(timestamp=-1) for r in RECORDS])
YESTERDAY = encode_batch([r._replace(timestamp=NOON - DAY_MS) for r in RECORDS])
BOMB = encode_batch([Record(0, NOON, None, bytes(10_000))], compression=1)
BOMB_LIMIT = ProduceRules(decompressed_bytes_max=9_000)
BELOW_BATCH = small(len(BATCH) - 1)
SMALL_SEGMENT = ProduceRules(segment_bytes=len(BATCH))
NO_CODEC = UNSUPPORTED_COMPRESSION_TYPE
LIST_TOO_LARGE = RECORD_LIST_TOO_LARGE

# case                      version  records                      rules          error
REFUSALS = [
    ("nothing",                   3, b"",                         DEFAULT,       INVALID_RECORD),
    ("message set in v3",         3, OLD_SET,                     DEFAULT,       INVALID_RECORD),
    ("message set in v9",         9, OLD_SET,                     DEFAULT,       INVALID_RECORD),
    ("two batches in v3",         3, BATCH + BATCH,               DEFAULT,       INVALID_RECORD),
    ("bytes behind the batch",    9, BATCH + b"x",                DEFAULT,       INVALID_RECORD),
    ("bytes behind it in v2",     2, BATCH + b"x",                DEFAULT,       CORRUPT_MESSAGE),
    ("a cut batch",               9, BATCH[:-1],                  DEFAULT,       CORRUPT_MESSAGE),
    ("a few bytes",               9, BATCH[:20],                  DEFAULT,       CORRUPT_MESSAGE),
    ("a few bytes in v0",         0, OLD_SET[:20],                DEFAULT,       CORRUPT_MESSAGE),
    ("magic 3",                   9, patched(16, ">b", 3),        DEFAULT,       CORRUPT_MESSAGE),
    ("magic -1",                  2, patched(16, ">b", -1),       DEFAULT,       CORRUPT_MESSAGE),
    ("batch, then message set",   2, BATCH + OLD_SET,             DEFAULT,       CORRUPT_MESSAGE),
    ("message set, then batch",   2, OLD_SET + BATCH,             DEFAULT,       CORRUPT_MESSAGE),
    ("zstd in v6",                6, ZSTD,                        DEFAULT,       NO_CODEC),
    ("zstd in v2",                2, ZSTD,                        DEFAULT,       NO_CODEC),
    ("zstd second in v2",         2, BATCH + ZSTD,                DEFAULT,       NO_CODEC),
    ("codec 5",                   9, patched(21, ">h", 5),        DEFAULT,       NO_CODEC),
    ("wrong CRC",                 9, flipped(BATCH),              DEFAULT,       CORRUPT_MESSAGE),
    ("wrong CRC in v2",           2, flipped(OLD_SET),            DEFAULT,       CORRUPT_MESSAGE),
    ("plain called gzip",         9, patched(21, ">h", 1),        DEFAULT,       CORRUPT_MESSAGE),
    ("gzip called plain",         9, patched(21, ">h", 0, GZIP),  DEFAULT,       INVALID_RECORD),
    ("base offset 5",             9, AT_OFFSET_5,                 DEFAULT,       INVALID_RECORD),
    ("no record",                 9, EMPTY,                       DEFAULT,       INVALID_RECORD),
    ("count 2 of 3",              9, patched(57, ">i", 2),        DEFAULT,       INVALID_RECORD),
    ("count and delta say 4",     9, COUNT_4,                     DEFAULT,       INVALID_RECORD),
    ("last offset delta 9",       9, patched(23, ">i", 9),        DEFAULT,       INVALID_RECORD),
    ("offsets 0, 2, 1",           9, SHUFFLED,                    DEFAULT,       INVALID_RECORD),
    ("control batch",             9, CONTROL,                     DEFAULT,       INVALID_RECORD),
    ("producer, no sequence",     9, NO_SEQUENCE,                 DEFAULT,       INVALID_RECORD),
    ("a producer's append time",  9, APPEND_TIME,                 DEFAULT,       INVALID_TIMESTAMP),
    ("the same in v2",            2, OLD_APPEND_TIME,             DEFAULT,       INVALID_TIMESTAMP),
    ("no keys, compacted",        9, NO_KEYS_BATCH,               COMPACTED,     INVALID_RECORD),
    ("no keys, compacted, gzip",  9, NO_KEYS_GZIP,                COMPACTED,     INVALID_RECORD),
    ("no keys, compacted, v2",    2, NO_KEYS_OLD,                 COMPACTED,     INVALID_RECORD),
    ("from the future",           9, BATCH,                       BOUNDED,       INVALID_TIMESTAMP),
    ("from the future in v2",     2, OLD_SET,                     BOUNDED,       INVALID_TIMESTAMP),
    ("batch too large",           9, BATCH,                       BELOW_BATCH,   MESSAGE_TOO_LARGE),
    ("message too large",         2, OLD_SET,                     small(50),     MESSAGE_TOO_LARGE),
    ("too large and wrong CRC",   9, flipped(BATCH),              BELOW_BATCH,   MESSAGE_TOO_LARGE),
    ("wrong CRC and control",     9, flipped(CONTROL),            DEFAULT,       CORRUPT_MESSAGE),
    ("a bomb",                    9, BOMB,                        BOMB_LIMIT,    MESSAGE_TOO_LARGE),
    ("list above the segment",    2, BATCH + BATCH,               SMALL_SEGMENT, LIST_TOO_LARGE),
]  # fmt: skip


@pytest.mark.parametrize(
    ("version", "records", "rules", "error"),
    [row[1:] for row in REFUSALS],
    ids=[str(row[0]) for row in REFUSALS],
)
def test_produce_refuses_records_that_break_a_rule(
    version: int, records: bytes, rules: ProduceRules, error: int
) -> None:
    with pytest.raises(CorruptRecords) as refused:
        analyse(records, version, NOON, rules)
    assert NAMES[refused.value.error_code] == NAMES[error]
    assert refused.value.message


ACCEPTED = [
    ("a batch",                   9, BATCH,                       DEFAULT),
    ("a batch in an old request", 2, BATCH,                       DEFAULT),
    ("two batches in v2",         2, BATCH + BATCH,               DEFAULT),
    ("zstd in v7",                7, ZSTD,                        DEFAULT),
    ("gzip in v3",                3, GZIP,                        DEFAULT),
    ("as large as allowed",       9, BATCH,                       small(len(BATCH))),
    ("keys, compacted",           9, BATCH,                       COMPACTED),
    ("no timestamps, bounded",    9, NO_STAMPS,                   BOUNDED),
    ("the past, bounded",         9, YESTERDAY,                   BOUNDED),
    ("an idempotent producer",    9, SEQUENCE,                    DEFAULT),
]  # fmt: skip


@pytest.mark.parametrize(
    ("version", "records", "rules"),
    [row[1:] for row in ACCEPTED],
    ids=[str(row[0]) for row in ACCEPTED],
)
def test_produce_accepts_valid_records_unchanged(
    version: int, records: bytes, rules: ProduceRules
) -> None:
    produced = analyse(records, version, NOON, rules)
    assert produced.data is records
    assert produced.batches == [header for header, _ in iter_batches(records)]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_produce_accepts_records_in_any_buffer_type(kind: Callable[[bytes], bytes]) -> None:
    assert analyse(kind(BATCH), 9, NOON).batches == [read_header(BATCH)]
    assert analyse(kind(OLD_SET), 2, NOON).batches[0].record_count == 3


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("records", [None, b""])
def test_empty_message_set_of_an_old_client_is_accepted(
    version: int, records: bytes | None
) -> None:
    produced = analyse(records, version, NOON)
    assert (produced.data, produced.batches) == (b"", [])


def test_null_records_of_a_newer_client_are_refused() -> None:
    with pytest.raises(CorruptRecords, match="must have a record batch"):
        analyse(None, 9, NOON)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, 1, 2, 3])
def test_produced_message_sets_become_one_batch(magic: int, codec: int) -> None:
    produced = analyse(message_set.encode(RECORDS, magic, codec), 2, NOON)
    (header,) = produced.batches
    validate_batch(produced.data, header, deep=True)
    assert (header.compression, header.record_count) == (codec, 3)
    records = records_of(produced.data, header)
    assert [(r.key, r.value) for r in records] == [(r.key, r.value) for r in RECORDS]


class TestSingleRecordsToBlame:
    def test_record_errors_list_the_records_without_keys(self) -> None:
        with pytest.raises(CorruptRecords) as refused:
            analyse(encode_batch(NO_KEYS), 9, NOON, COMPACTED)
        assert [error.batch_index for error in refused.value.record_errors] == [1, 2]
        assert "without key" in refused.value.record_errors[0].message
        assert "2 records are rejected" in refused.value.message

    def test_record_errors_list_the_records_with_timestamps_out_of_bounds(self) -> None:
        stamps = [NOON, NOON + 1, NOON - DAY_MS - 1, -1]
        batch = encode_batch([Record(i, t, None, b"") for i, t in enumerate(stamps)])
        with pytest.raises(CorruptRecords) as refused:
            analyse(batch, 9, NOON, BOUNDED)
        assert [error.batch_index for error in refused.value.record_errors] == [1, 2]

    def test_number_of_record_errors_is_bounded(self) -> None:
        batch = encode_batch([Record(i, NOON, None, b"") for i in range(5000)])
        with pytest.raises(CorruptRecords) as refused:
            analyse(batch, 9, NOON, COMPACTED)
        assert len(refused.value.record_errors) == RECORD_ERRORS_MAX
        assert "5000 records" in refused.value.message
        assert len(refused.value.message) < 500


class TestTopicSettings:
    def test_produce_sets_the_append_time(self) -> None:
        rules = ProduceRules(timestamp_type=LOG_APPEND_TIME, timestamp_before_max_ms=0)
        produced = analyse(BATCH, 9, NOON + 50, rules)
        (header,) = produced.batches
        validate_batch(produced.data, header, deep=True)
        assert (header.timestamp_type, header.max_timestamp) == (LOG_APPEND_TIME, NOON + 50)
        assert header.base_timestamp == NOON, "what the producer wrote is kept below"

    @pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
    def test_codec_of_the_topic_replaces_the_producers_codec(self, codec: int) -> None:
        sent = encode_batch(
            RECORDS, compression=2, producer_id=7, producer_epoch=1, base_sequence=9
        )
        produced = analyse(sent, 9, NOON, ProduceRules(compression=codec))
        (header,) = produced.batches
        validate_batch(produced.data, header, deep=True)
        assert header.compression == codec
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 9)
        assert header.timestamp_type == CREATE_TIME
        assert records_of(produced.data, header) == RECORDS

    def test_produced_batch_gets_the_codec_and_the_append_time_of_its_topic(self) -> None:
        rules = ProduceRules(compression=3, timestamp_type=LOG_APPEND_TIME)
        produced = analyse(BATCH + BATCH, 2, NOON + 50, rules)
        assert [header.compression for header in produced.batches] == [3, 3]
        for header in produced.batches:
            validate_batch(produced.data, header, deep=True)
            assert {r.timestamp for r in records_of(produced.data, header)} == {NOON + 50}

    @pytest.mark.parametrize("claimed", [NOON + 10**9, 0, -1])
    def test_wrong_max_timestamp_is_corrected(self, claimed: int) -> None:
        """The time index uses the max timestamp of a batch. With a wrong value, a lookup by time
        would miss records."""
        produced = analyse(patched(35, ">q", claimed), 9, NOON)
        (header,) = produced.batches
        validate_batch(produced.data, header, deep=True)
        assert header.max_timestamp == NOON + 2
        assert records_of(produced.data, header) == RECORDS

    def test_wrong_max_timestamp_of_a_batch_is_corrected_and_other_batches_are_unchanged(
        self,
    ) -> None:
        produced = analyse(patched(35, ">q", 0) + BATCH, 2, NOON)
        assert bytes(produced.data) == BATCH + BATCH
        assert [header.position for header in produced.batches] == [0, len(BATCH)]
