"""Tests that records and replies of the share coordinator equal those of Apache Kafka 4.3.1 for the
same requests."""

from __future__ import annotations

import pytest

from share.persister.record_codec import decode_value
from tests.share.persister.kafka_records import STEPS, StoredRecord, core_answers, read_golden


def shown(record: StoredRecord) -> tuple[bytes, object]:
    key, value = record
    return key, None if value is None else decode_value(int.from_bytes(key[:2], "big"), value)


@pytest.mark.proves("share 8")
def test_share_coordinator_records_have_the_same_bytes_as_in_kafka() -> None:
    kafka, _ = read_golden()
    ours, _ = core_answers(kafka)
    for number, (mine, theirs) in enumerate(zip(ours, kafka, strict=True)):
        assert shown(mine) == shown(theirs), f"record {number}"
        assert mine == theirs, f"record {number}"


@pytest.mark.proves("share 8")
def test_share_coordinator_replies_equal_those_of_kafka() -> None:
    kafka, replies = read_golden()
    _, ours = core_answers(kafka)
    for step, mine, theirs in zip(STEPS, ours, replies, strict=True):
        assert mine == theirs, step
