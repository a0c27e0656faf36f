"""The records of the core equal the records that Apache Kafka 4.3.1 wrote for the same requests."""

from __future__ import annotations

from tests.transactions.kafka_records import StoredRecord, by_id, core_records, read_golden
from transactions.record_codec import decode_value


def shown(record: StoredRecord) -> tuple[bytes, object]:
    key, value = record
    return key, None if value is None else decode_value(value)


def test_records_of_the_core_equal_those_of_kafka_byte_for_byte() -> None:
    kafka = read_golden()
    ours = core_records(kafka)
    for number, (mine, theirs) in enumerate(zip(ours, by_id(kafka), strict=True)):
        assert shown(mine) == shown(theirs), f"record {number}"
        assert mine == theirs, f"record {number}"
