"""kafka-python and aiokafka decode the record data that Muster writes, and Muster decodes the
record data that they write."""

from __future__ import annotations

from typing import Any

import aiokafka.record.default_records as aiokafka_default
import aiokafka.record.legacy_records as aiokafka_legacy
import kafka.record.default_records as kafka_default
import kafka.record.legacy_records as kafka_legacy
import pytest
from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords
from kafka.record.memory_records import MemoryRecords as KafkaRecords

from protocol.records import message_set
from protocol.records.batch import encode_batch, read_header, records_of, validate_batch
from protocol.records.compression import NAMES
from protocol.records.section import Record

NOON = 1_700_000_000_000
RECORDS = [
    Record(
        i,
        NOON + 3 * i,
        None if i % 3 == 0 else b"key %d" % i,
        None if i % 5 == 0 else b"value " * i,
        [("h", b"1"), ("ünï", b"")] if i % 4 == 0 else [],
    )
    for i in range(100)
]
# kafka-python needs optional packages for snappy and zstd that aiokafka does not need; both need
# another package for LZ4 in magic 0. Kafka's golden bytes cover these cases.
KAFKA_CODECS = (0, 1, 3)


def batch_codecs(kafka: Any, aiokafka: Any) -> pytest.MarkDecorator:
    cases = [
        pytest.param(codec, theirs, id=f"{NAMES[codec]}-{name}")
        for name, theirs in (("kafka-python", kafka), ("aiokafka", aiokafka))
        for codec in range(5)
        if theirs is aiokafka or codec in KAFKA_CODECS
    ]
    return pytest.mark.parametrize(("codec", "theirs"), cases)


def set_codecs(kafka: Any, aiokafka: Any) -> pytest.MarkDecorator:
    cases = [
        pytest.param(codec, magic, theirs, id=f"{NAMES[codec]}-magic{magic}-{name}")
        for name, theirs in (("kafka-python", kafka), ("aiokafka", aiokafka))
        for magic in (0, 1)
        for codec in range(4)
        if (theirs is aiokafka or codec in KAFKA_CODECS) and (magic, codec) != (0, 3)
    ]
    return pytest.mark.parametrize(("codec", "magic", "theirs"), cases)


def read(reader: Any, data: bytes) -> list[tuple[Any, ...]]:
    records = reader(data)
    found = []
    while (batch := records.next_batch()) is not None:
        assert batch.validate_crc()
        found += [
            (r.offset, r.timestamp, r.key, r.value, [tuple(pair) for pair in r.headers])
            for r in batch
        ]
    return found


def plain(records: list[Record]) -> list[tuple[Any, ...]]:
    return [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in records]


@batch_codecs(KafkaRecords, AiokafkaRecords)
def test_other_libraries_decode_batches_of_muster(codec: int, theirs: Any) -> None:
    data = encode_batch(RECORDS[:60], compression=codec) + encode_batch(
        RECORDS[60:], compression=codec
    )
    assert read(theirs, data) == plain(RECORDS)


@set_codecs(KafkaRecords, AiokafkaRecords)
def test_other_libraries_decode_message_sets_of_muster(codec: int, magic: int, theirs: Any) -> None:
    data = message_set.encode(RECORDS, magic, codec)
    expected = [(r.offset, r.timestamp if magic else None, r.key, r.value, []) for r in RECORDS]
    assert read(theirs, data) == expected


@batch_codecs(kafka_default, aiokafka_default)
def test_muster_decodes_batches_of_other_libraries(codec: int, theirs: Any) -> None:
    builder = theirs.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=12,
        producer_epoch=3,
        base_sequence=5,
        batch_size=1 << 20,
    )
    for r in RECORDS:
        builder.append(r.offset, r.timestamp, r.key, r.value, r.headers)
    data = bytes(builder.build())
    header = read_header(data)
    validate_batch(data, header, deep=True)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (12, 3, 5)
    assert plain(records_of(data, header)) == plain(RECORDS)


@set_codecs(kafka_legacy, aiokafka_legacy)
def test_muster_decodes_message_sets_of_other_libraries(
    codec: int, magic: int, theirs: Any
) -> None:
    builder = theirs.LegacyRecordBatchBuilder(
        magic=magic, compression_type=codec, batch_size=1 << 20
    )
    for r in RECORDS:
        builder.append(r.offset, timestamp=r.timestamp, key=r.key, value=r.value)
    decoded = message_set.read_set(bytes(builder.build()))
    assert (decoded.magic, decoded.compression) == (magic, codec)
    assert [(r.timestamp, r.key, r.value) for r in decoded.records] == [
        (r.timestamp if magic else -1, r.key, r.value) for r in RECORDS
    ]
