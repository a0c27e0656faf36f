"""Tests of Produce requests with message sets of old clients, and of Produce requests to a topic
with an old message format."""

from __future__ import annotations

import pytest

from protocol.errors import (
    INVALID_RECORD,
    INVALID_TIMESTAMP,
    MESSAGE_TOO_LARGE,
    NAMES,
    UNSUPPORTED_COMPRESSION_TYPE,
    UNSUPPORTED_FOR_MESSAGE_FORMAT,
)
from protocol.records import message_set
from protocol.records.batch import LOG_APPEND_TIME, encode_batch
from protocol.records.compression import compress
from protocol.records.corrupt import CorruptRecords
from protocol.records.message_set import encode, iter_messages, placed, read_set
from protocol.records.produce import analyse
from protocol.records.produce_rules import Produced, ProduceRules
from protocol.records.section import Record

NOON = 1_700_000_000_000
DAY_MS = 86_400_000
RECORDS = [Record(i, NOON + i, b"k%d" % i, b"v" * 30) for i in range(4)]
WITHOUT_TIME = [record._replace(timestamp=-1) for record in RECORDS]
ZERO, ONE = ProduceRules(magic=0), ProduceRules(magic=1)
CODECS = (0, 1, 2, 3)


def stored(produced: Produced, base_offset: int = 0, append_time: int | None = None) -> bytes:
    return bytes(placed(produced.data, base_offset, append_time))


def records_in(data: bytes) -> list[Record]:
    decoded = read_set(data)
    assert {message.magic for message in iter_messages(data)} == {decoded.magic}
    return decoded.records


def shifted(records: list[Record], by: int) -> list[Record]:
    return [record._replace(offset=record.offset + by) for record in records]


class TestTheSameMagic:
    @pytest.mark.parametrize("codec", CODECS)
    def test_magic_1_message_set_is_stored_with_only_its_offsets_changed(self, codec: int) -> None:
        sent = encode(RECORDS, 1, codec)
        produced = analyse(sent, 2, NOON, ONE)
        assert produced.data == sent
        assert produced.converted == 0

        data = stored(produced, 100)
        assert records_in(data) == shifted(RECORDS, 100)
        assert len(data) == len(sent)
        for before, after in zip(iter_messages(sent), iter_messages(data), strict=True):
            assert before.value == after.value, "what is compressed is not touched"

    @pytest.mark.parametrize("codec", CODECS)
    def test_magic_0_message_set_is_stored_with_absolute_inner_offsets(self, codec: int) -> None:
        produced = analyse(encode(RECORDS, 0, codec), 0, NOON, ZERO)
        data = stored(produced, 100)
        assert records_in(data) == shifted(WITHOUT_TIME, 100)
        assert produced.converted == 0

    def test_offsets_are_consecutive_across_messages_and_wrappers(self) -> None:
        wrapper = encode(RECORDS, 1, 1)
        sent = wrapper + encode(RECORDS[:2], 1) + wrapper  # the broker ignores the client's offsets
        offsets = [record.offset for record in records_in(stored(analyse(sent, 2, NOON, ONE), 50))]
        assert offsets == list(range(50, 60))

    def test_produce_assigns_offsets_to_inner_messages_that_all_have_offset_0(self) -> None:
        inner = b"".join(encode([record._replace(offset=0)], 1) for record in RECORDS)
        wrapped = Record(0, NOON + 3, None, compress(1, inner, 1))
        sent = message_set._encode_message(wrapped, 1, 1)
        assert records_in(stored(analyse(sent, 2, NOON, ONE), 9)) == shifted(RECORDS, 9)

    def test_wrapper_gets_the_latest_timestamp_of_its_messages(self) -> None:
        sent = encode(RECORDS, 1, 1, append_time=NOON - 5)
        (message,) = iter_messages(stored(analyse(sent, 2, NOON, ONE)))
        assert message.timestamp == NOON + 3

    @pytest.mark.parametrize("codec", CODECS)
    def test_stored_message_set_has_the_log_append_time(self, codec: int) -> None:
        rules = ProduceRules(magic=1, timestamp_type=LOG_APPEND_TIME)
        produced = analyse(encode(RECORDS, 1, codec), 2, NOON, rules)
        decoded = read_set(stored(produced, 3, NOON + DAY_MS))
        assert decoded.timestamp_type == LOG_APPEND_TIME
        assert {record.timestamp for record in decoded.records} == {NOON + DAY_MS}
        assert [record.offset for record in decoded.records] == [3, 4, 5, 6]

    @pytest.mark.parametrize("wanted", CODECS)
    @pytest.mark.parametrize("codec", CODECS)
    def test_recompression_is_not_counted_as_a_conversion(self, codec: int, wanted: int) -> None:
        rules = ProduceRules(magic=1, compression=wanted)
        produced = analyse(encode(RECORDS, 1, codec), 2, NOON, rules)
        decoded = read_set(stored(produced))
        assert (decoded.compression, produced.converted) == (wanted, 0)
        assert decoded.records == RECORDS


class TestConversion:
    @pytest.mark.parametrize("codec", CODECS)
    def test_conversion_from_magic_0_to_1_sets_no_timestamps(self, codec: int) -> None:
        produced = analyse(encode(RECORDS, 0, codec), 0, NOON, ONE)
        decoded = read_set(stored(produced, 7))
        assert (decoded.magic, decoded.compression, produced.converted) == (1, codec, 4)
        assert decoded.records == shifted(WITHOUT_TIME, 7)

    @pytest.mark.parametrize("codec", CODECS)
    def test_conversion_from_magic_1_to_0_drops_timestamps(self, codec: int) -> None:
        produced = analyse(encode(RECORDS, 1, codec), 2, NOON, ZERO)
        decoded = read_set(stored(produced, 7))
        assert (decoded.magic, decoded.compression, produced.converted) == (0, codec, 4)
        assert decoded.records == shifted(WITHOUT_TIME, 7)

    @pytest.mark.parametrize("rules", [ZERO, ONE])
    @pytest.mark.parametrize("codec", CODECS)
    def test_batch_is_converted_to_a_message_set(self, codec: int, rules: ProduceRules) -> None:
        produced = analyse(encode_batch(RECORDS, compression=codec), 9, NOON, rules)
        decoded = read_set(stored(produced, 7))
        assert (decoded.magic, decoded.compression, produced.converted) == (rules.magic, codec, 4)
        assert decoded.records == shifted(RECORDS if rules.magic else WITHOUT_TIME, 7)

    def test_converted_records_are_counted_only_for_message_sets(self) -> None:
        assert analyse(encode(RECORDS, 1), 2, NOON).converted == 4
        assert analyse(encode_batch(RECORDS), 9, NOON).converted == 0
        gzip = ProduceRules(compression=1)
        assert analyse(encode_batch(RECORDS), 9, NOON, gzip).converted == 0


KEYLESS = [RECORDS[0], RECORDS[1]._replace(key=None)]
COMPACTED = ProduceRules(magic=1, compacted=True)
BOUNDED = ProduceRules(magic=1, timestamp_before_max_ms=DAY_MS, timestamp_after_max_ms=0)
SMALL = ProduceRules(magic=1, max_message_bytes=len(encode(RECORDS[:1], 1)) - 1)
IDEMPOTENT = encode_batch(RECORDS, producer_id=7, producer_epoch=0, base_sequence=0)
HEADERS = encode_batch([RECORDS[0]._replace(headers=[("h", b"x")])])
OLD_FORM = UNSUPPORTED_FOR_MESSAGE_FORMAT
NO_CODEC = UNSUPPORTED_COMPRESSION_TYPE
TOO_LARGE = MESSAGE_TOO_LARGE
BAD_TIME = INVALID_TIMESTAMP
BAD_RECORD = INVALID_RECORD
TO_ZSTD = ProduceRules(magic=1, compression=4)

# case                    version  records                                  rules      error
REFUSALS = [
    ("an idempotent producer",  9, IDEMPOTENT,                              ONE,       OLD_FORM),
    ("record headers",          9, HEADERS,                                 ONE,       OLD_FORM),
    ("zstd",                    9, encode_batch(RECORDS, compression=4),    ONE,       NO_CODEC),
    ("a topic of zstd",         2, encode(RECORDS, 1),                      TO_ZSTD,   NO_CODEC),
    ("a batch for zstd",        9, encode_batch(RECORDS),                   TO_ZSTD,   NO_CODEC),
    ("a message too large",     2, encode(RECORDS[:1], 1),                  SMALL,     TOO_LARGE),
    ("a batch too large",       9, encode_batch(RECORDS[:1]),               SMALL,     TOO_LARGE),
    ("no key, compacted",       2, encode(KEYLESS, 1),                      COMPACTED, BAD_RECORD),
    ("the same in a batch",     9, encode_batch(KEYLESS),                   COMPACTED, BAD_RECORD),
    ("in the future",           2, encode(RECORDS, 1),                      BOUNDED,   BAD_TIME),
    ("its own append time",     2, encode(RECORDS, 1, timestamp_type=1),    ONE,       BAD_TIME),
]  # fmt: skip


@pytest.mark.parametrize(
    ("version", "data", "rules", "error"),
    [row[1:] for row in REFUSALS],
    ids=[row[0] for row in REFUSALS],
)
def test_produce_to_an_old_format_refuses_invalid_records(
    version: int, data: bytes, rules: ProduceRules, error: int
) -> None:
    with pytest.raises(CorruptRecords) as refused:
        analyse(data, version, NOON, rules)
    assert NAMES[refused.value.error_code] == NAMES[error]


def test_record_errors_list_the_invalid_records_of_a_message_set() -> None:
    with pytest.raises(CorruptRecords) as refused:
        analyse(encode(KEYLESS, 1), 2, NOON, COMPACTED)
    assert [error.batch_index for error in refused.value.record_errors] == [1]
    with pytest.raises(CorruptRecords) as refused:
        analyse(encode_batch(RECORDS), 9, NOON + 1, BOUNDED)
    assert [error.batch_index for error in refused.value.record_errors] == [2, 3]
