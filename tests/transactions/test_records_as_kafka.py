"""Tests that the core writes the same records as Apache Kafka 4.3.1 for the same requests."""

from __future__ import annotations

from tests.transactions.kafka_records import StoredRecord, by_id, core_records, read_golden
from transactions.record_codec import decode_value


def shown(record: StoredRecord) -> tuple[bytes, object]:
    key, value = record
    return key, None if value is None else decode_value(value)


def test_transaction_records_have_the_same_bytes_as_in_kafka() -> None:
    kafka = read_golden()
    ours = core_records(kafka)
    for number, (mine, theirs) in enumerate(zip(ours, by_id(kafka), strict=True)):
        assert shown(mine) == shown(theirs), f"record {number}"
        assert mine == theirs, f"record {number}"
