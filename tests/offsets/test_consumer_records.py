"""Consumer group records have the same bytes as those of Kafka's serializer."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsets.consumer_codec import (
    decode,
    decode_by_schema,
    encode_by_schema,
    encode_key,
    encode_value,
)
from offsets.consumer_records import (
    ClassicMember,
    ConsumerRecord,
    CurrentAssignment,
    CurrentRecord,
    EpochRecord,
    GroupEpoch,
    MemberMetadata,
    MemberRecord,
    RegexRecord,
    ResolvedRegex,
    TargetEpoch,
    TargetEpochRecord,
    TargetRecord,
    TopicsRecord,
)
from offsets.record_values import Malformed, UnwritableRun
from tests.brokers import CHECKOUT
from tests.offsets.strategies import consumer_records

T, U = b"t" * 16, b"u" * 16
RECORDS: list[ConsumerRecord] = [
    EpochRecord(GroupEpoch(2)),
    EpochRecord(GroupEpoch(7, -5)),
    MemberRecord("m", MemberMetadata("i", "r", "c", "/h", ("a", "b"), "x.*", 300_000, "uniform")),
    MemberRecord("m", MemberMetadata(classic=ClassicMember(45_000, (("range", b"\0\1"),)))),
    TargetEpochRecord(TargetEpoch(2, 1_700_000_000_000)),
    TargetEpochRecord(TargetEpoch(2)),
    TargetRecord("m", {T: (0, 1, 5), U: (2,)}),
    TargetRecord("m", {}),
    CurrentRecord("m", CurrentAssignment(5, 4, 1, {T: {0: 2, 3: 5}}, {U: {1: 4}})),
    CurrentRecord("m", CurrentAssignment(-2, 4)),
    RegexRecord("^a.*", ResolvedRegex(("a1", "a2"), 9, 1_700_000_000_000)),
]
GOLDEN = CHECKOUT / "tests" / "data" / "golden" / "records.jsonl"
NAMES = {
    "ConsumerGroupMetadata": 3,
    "ConsumerGroupMemberMetadata": 5,
    "ConsumerGroupTargetAssignmentMetadata": 6,
    "ConsumerGroupTargetAssignmentMember": 7,
    "ConsumerGroupCurrentMemberAssignment": 8,
    "ConsumerGroupRegularExpression": 16,
}


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_encoded_record_is_decoded_to_the_same_record(record: ConsumerRecord) -> None:
    assert decode(encode_key("g", record), encode_value(record)) == ("g", record)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_encoded_tombstone_is_decoded_as_a_tombstone(record: ConsumerRecord) -> None:
    key = encode_key("g", record)
    record.value, kept = None, record.value
    try:
        assert encode_value(record) is None
        assert decode(key, None) == ("g", record)
    finally:
        record.value = kept  # type: ignore[assignment]


def golden(name: str, part: str) -> list[bytes]:
    lines = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
    found = [bytes.fromhex(each["hex"]) for each in lines if each["record"] == name + part]
    assert len(found) >= 3
    return found


@pytest.mark.parametrize("name", NAMES)
def test_record_of_apache_kafka_is_decoded_and_encoded_to_the_same_bytes(name: str) -> None:
    for key, value in zip(golden(name, "Key"), golden(name, "Value"), strict=True):
        stored_key = NAMES[name].to_bytes(2, "big") + key
        stored = decode(stored_key, b"\0\0" + value)
        assert stored is not None
        assert encode_key(*stored) == stored_key
        again = encode_value(stored[1])
        assert again is not None
        if again[2:] != value:  # Apache's samples repeat partitions and leave epochs out
            assert decode(stored_key, again) == stored
            assert name in (
                "ConsumerGroupCurrentMemberAssignment",
                "ConsumerGroupTargetAssignmentMember",
            )


def test_missing_assignment_epochs_are_decoded_as_the_member_epoch() -> None:
    key = encode_key("g", CurrentRecord("m", None))
    topics = b"\x02" + T + b"\x03" + (1).to_bytes(4, "big") + (0).to_bytes(4, "big") + b"\0"
    value = b"\0\0" + (7).to_bytes(4, "big") + (6).to_bytes(4, "big") + b"\0" + topics + b"\x01\0"
    current = CurrentAssignment(7, 6, 0, {T: {0: 7, 1: 7}})
    assert decode(key, value) == ("g", CurrentRecord("m", current))


def test_topic_metadata_record_of_kafka_4_0_is_decoded_without_topics() -> None:
    key = encode_key("g", TopicsRecord())
    assert decode(key, b"\0\0\x01\0") == ("g", TopicsRecord(True))
    assert decode(key, None) == ("g", TopicsRecord())


def test_key_of_another_record_type_is_not_decoded() -> None:
    assert decode(b"\0\2\0\1g", None) is None


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (b"\0\1\0", "version 1 of .* a newer Muster"),
        (b"\0", "contain a version"),
        (b"\0\0\0", "Metadata"),
    ],
)
def test_malformed_value_raises_an_error(value: bytes, error: str) -> None:
    with pytest.raises(Malformed, match=error):
        decode(encode_key("g", EpochRecord(None)), value)


# ------------------------------------------------------------------ straight lines and schemas


@given(consumer_records)
def test_specialized_codec_gives_the_same_results_as_the_schema_codec(
    record: ConsumerRecord,
) -> None:
    key, value = encode_key("g", record), encode_value(record)
    assert value == encode_by_schema(record)
    assert decode(key, value) == decode_by_schema(key, value) == ("g", record)


@given(consumer_records, st.data())
def test_specialized_codec_decodes_changed_bytes_like_the_schema_codec(
    record: ConsumerRecord, data: st.DataObject
) -> None:
    key, value = bytearray(encode_key("g", record)), bytearray(encode_by_schema(record))
    for changed, least in ((key, 2), (value, 0)):
        if len(changed) > least and data.draw(st.booleans()):
            position = data.draw(st.integers(least, len(changed) - 1))
            if data.draw(st.booleans()):
                changed[position] = data.draw(st.integers(0, 255))
            else:
                changed[position:] = data.draw(st.binary(max_size=3))
    assert read_by(decode, key, value) == read_by(decode_by_schema, key, value)


def read_by(read: Callable[[bytes, bytes], object], key: bytearray, value: bytearray) -> object:
    try:
        return read(bytes(key), bytes(value))
    except Malformed:
        return Malformed


def test_string_too_long_for_a_record_key_is_refused() -> None:
    with pytest.raises(UnwritableRun, match="40000 bytes"):
        encode_key("g" * 40_000, EpochRecord(None))
