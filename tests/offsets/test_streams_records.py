"""Streams group records have the same bytes as those of Kafka's serializer."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from offsets.record_codec import run_records
from offsets.record_values import Malformed, UnwritableRun
from offsets.runs import Run
from offsets.section_reader import runs_of_section
from offsets.streams_codec import decode, encode_key, encode_value
from offsets.streams_records import (
    CopartitionGroup,
    Endpoint,
    InternalTopic,
    StreamsCurrentAssignment,
    StreamsCurrentRecord,
    StreamsEpochRecord,
    StreamsGroupEpoch,
    StreamsGroupRun,
    StreamsMemberMetadata,
    StreamsMemberRecord,
    StreamsRecord,
    StreamsTargetEpoch,
    StreamsTargetEpochRecord,
    StreamsTargetRecord,
    StreamsTopologyRecord,
    Subtopology,
    TaskRoles,
    Topology,
)
from tests.brokers import CHECKOUT
from tests.offsets.strategies import streams_records

AT_MS = 1_700_000_000_000
RECORDS: list[tuple[int, StreamsRecord, str]] = [
    (17, StreamsEpochRecord(StreamsGroupEpoch(2)), "0000 00000002 0000000000000000 01 010101"),
    (
        17,
        StreamsEpochRecord(StreamsGroupEpoch(3, -2, 0, (("k", "v"),))),
        "0000 00000003 fffffffffffffffe 02 0004 00000000 0106 02 026b 0276 00",
    ),
    (
        19,
        StreamsMemberRecord("m", StreamsMemberMetadata(None, "r", "c", "/h", 300, 0, "p")),
        "0000 00 0272 0263 032f68 0000012c 00000000 0270 ff 01 00",
    ),
    (
        19,
        StreamsMemberRecord(
            "m",
            StreamsMemberMetadata(
                None, None, "c", "/h", 300, 1, "p", Endpoint("e", 80), (("k", "v"),)
            ),
        ),
        "0000 00 00 0263 032f68 0000012c 00000001 0270 01 0265 0050 00 02 026b 0276 00 00",
    ),
    (
        20,
        StreamsTargetEpochRecord(StreamsTargetEpoch(2, AT_MS)),
        "0000 00000002 010008 0000018bcfe56800",
    ),
    (20, StreamsTargetEpochRecord(StreamsTargetEpoch(2)), "0000 00000002 00"),
    (21, StreamsTargetRecord("m", TaskRoles()), "0000 01 01 01 00"),
    (
        21,
        StreamsTargetRecord("m", TaskRoles({"a": (0, 1)}, {"b": (2,)})),
        "0000 02 0261 03 00000000 00000001 00 02 0262 02 00000002 00 01 00",
    ),
    (
        22,
        StreamsCurrentRecord(
            "m",
            StreamsCurrentAssignment(
                3, 2, 2, {"a": {1: 3}}, {"b": (0,)}, {}, {"a": {0: 2}}, {}, {"c": (4,)}
            ),
        ),
        "0000 00000003 00000002 02"
        " 02 0261 02 00000001 01 00 05 02 00000003"
        " 02 0262 02 00000000 00 01"
        " 02 0261 02 00000000 01 00 05 02 00000002"
        " 01 02 0263 02 00000004 00 00",
    ),
    (
        23,
        StreamsTopologyRecord(
            Topology(
                1,
                (
                    Subtopology(
                        "0",
                        ("s",),
                        (),
                        (InternalTopic("l", 0, 0, (("k", "v"),)),),
                        ("q",),
                        (InternalTopic("r", 2, 1),),
                        (CopartitionGroup((0,), (), (0,)),),
                    ),
                ),
            )
        ),
        "0000 00000001 02 0230 02 0273 01"
        " 02 026c 00000000 0000 02 026b 0276 00 00"
        " 02 0271 02 0272 00000002 0001 01 00"
        " 02 02 0000 01 02 0000 00 00 00",
    ),
]
IDS = [f"{kind}-{number}" for number, (kind, _, _) in enumerate(RECORDS)]
GOLDEN = CHECKOUT / "tests" / "data" / "golden" / "records.jsonl"
NAMES = {
    "StreamsGroupMetadata": 17,
    "StreamsGroupMemberMetadata": 19,
    "StreamsGroupTargetAssignmentMetadata": 20,
    "StreamsGroupTargetAssignmentMember": 21,
    "StreamsGroupCurrentMemberAssignment": 22,
    "StreamsGroupTopology": 23,
}


@pytest.mark.parametrize(("kind", "record", "value"), RECORDS, ids=IDS)
def test_record_has_the_same_bytes_as_in_kafka(
    kind: int, record: StreamsRecord, value: str
) -> None:
    key = encode_key("g", record)
    assert key[:5] == kind.to_bytes(2, "big") + b"\0\1g"
    encoded = encode_value(record)
    assert encoded is not None
    assert encoded.hex(" ") == bytes.fromhex(value).hex(" ")
    assert decode(key, encoded) == ("g", record)


@pytest.mark.parametrize("record", [record for _, record, _ in RECORDS], ids=IDS)
def test_encoded_tombstone_is_decoded_as_a_tombstone(record: StreamsRecord) -> None:
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
    same = 0
    for key, value in zip(golden(name, "Key"), golden(name, "Value"), strict=True):
        stored_key = NAMES[name].to_bytes(2, "big") + key
        stored = decode(stored_key, b"\0\0" + value)
        assert stored is not None
        assert encode_key(*stored) == stored_key
        again = encode_value(stored[1])
        assert again is not None
        if again[2:] == value:
            same += 1
        else:  # Apache's samples have unsorted partitions, empty and repeated subtopologies
            assert decode(stored_key, again) == stored
            assert "Assignment" in name
    assert same == 3 or "Assignment" in name


@given(streams_records)
def test_encoded_record_is_decoded_to_the_same_record(record: StreamsRecord) -> None:
    assert decode(encode_key("g", record), encode_value(record)) == ("g", record)


def test_active_tasks_without_epochs_have_the_epoch_of_the_member() -> None:
    value = bytes.fromhex("0000 00000007 00000006 01 02 0261 02 00000001 00 01 01 01 01 01 00")
    decoded = decode(encode_key("g", StreamsCurrentRecord("m", None)), value)
    current = StreamsCurrentAssignment(7, 6, 1, {"a": {1: 7}})
    assert decoded == ("g", StreamsCurrentRecord("m", current))


def test_epoch_record_of_kafka_4_1_has_no_validated_topology() -> None:
    decoded = decode(
        encode_key("g", StreamsEpochRecord(None)),
        bytes.fromhex("0000 00000003 0000000000000005 00"),
    )
    assert decoded == ("g", StreamsEpochRecord(StreamsGroupEpoch(3, 5, -1, ())))


def test_key_of_another_record_type_is_not_decoded() -> None:
    assert decode(b"\0\x12\0\1g", None) is None


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
        decode(encode_key("g", StreamsEpochRecord(None)), value)


def test_string_too_long_for_a_record_key_is_refused() -> None:
    with pytest.raises(UnwritableRun, match="40000 bytes"):
        encode_key("g" * 40_000, StreamsEpochRecord(None))


def test_adjacent_records_of_a_streams_group_are_decoded_as_one_run() -> None:
    records = [record for _, record, _ in RECORDS]
    runs: list[Run] = [StreamsGroupRun("g", records), StreamsGroupRun("h", records[:1])]
    sections, count = [], 0
    for run in runs:
        sections.append(run_records(run, count))
        count += len(run)
    found = runs_of_section(b"".join(sections), 40, count, None, AT_MS)
    assert found == [
        (40, StreamsGroupRun("g", records, AT_MS)),
        (40 + len(records), StreamsGroupRun("h", records[:1], AT_MS)),
    ]
