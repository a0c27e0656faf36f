"""Share group records have the same bytes as those of Kafka's serializer."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from offsets.record_codec import run_records
from offsets.record_values import Malformed, UnwritableRun
from offsets.runs import Run
from offsets.section_reader import runs_of_section
from offsets.share_codec import decode, encode_key, encode_value
from offsets.share_records import (
    ShareCurrentAssignment,
    ShareCurrentRecord,
    ShareEpochRecord,
    ShareGroupEpoch,
    ShareGroupRun,
    ShareMemberMetadata,
    ShareMemberRecord,
    ShareRecord,
    ShareTargetEpoch,
    ShareTargetEpochRecord,
    ShareTargetRecord,
    StatePartitions,
    StatePartitionsRecord,
)
from tests.brokers import CHECKOUT
from tests.offsets.strategies import share_records

T, U = b"t" * 16, b"u" * 16
AT_MS = 1_700_000_000_000
RECORDS: list[tuple[int, ShareRecord, str]] = [
    (
        10,
        ShareMemberRecord("m", ShareMemberMetadata("r", "c", "/h", ("a", "b"))),
        "0000 0272 0263 032f68 03 0261 0262 00",
    ),
    (
        10,
        ShareMemberRecord("m", ShareMemberMetadata(None, "c", "/h", ("a",))),
        "0000 00 0263 032f68 02 0261 00",
    ),
    (11, ShareEpochRecord(ShareGroupEpoch(2)), "0000 00000002 0000000000000000 00"),
    (11, ShareEpochRecord(ShareGroupEpoch(3, -2)), "0000 00000003 fffffffffffffffe 00"),
    (
        12,
        ShareTargetEpochRecord(ShareTargetEpoch(2, AT_MS)),
        "0000 00000002 010008 0000018bcfe56800",
    ),
    (12, ShareTargetEpochRecord(ShareTargetEpoch(2)), "0000 00000002 00"),
    (13, ShareTargetRecord("m", {}), "0000 01 00"),
    (
        13,
        ShareTargetRecord("m", {T: (0, 1)}),
        f"0000 02 {T.hex()} 03 00000000 00000001 00 00",
    ),
    (
        14,
        ShareCurrentRecord("m", ShareCurrentAssignment(3, 2, 0, {T: (1,)})),
        f"0000 00000003 00000002 00 02 {T.hex()} 02 00000001 00 00",
    ),
    (
        15,
        StatePartitionsRecord(StatePartitions({T: ("t", (0,))}, {U: ("u", (0, 1))}, {T: "t"})),
        f"0000 02 {T.hex()} 0274 02 00000000 00"
        f" 02 {U.hex()} 0275 03 00000000 00000001 00 02 {T.hex()} 0274 00 00",
    ),
]
IDS = [f"{kind}-{number}" for number, (kind, _, _) in enumerate(RECORDS)]
GOLDEN = CHECKOUT / "tests" / "data" / "golden" / "records.jsonl"
NAMES = {
    "ShareGroupMemberMetadata": 10,
    "ShareGroupMetadata": 11,
    "ShareGroupTargetAssignmentMetadata": 12,
    "ShareGroupTargetAssignmentMember": 13,
    "ShareGroupCurrentMemberAssignment": 14,
    "ShareGroupStatePartitionMetadata": 15,
}


@pytest.mark.parametrize(("kind", "record", "value"), RECORDS, ids=IDS)
def test_record_has_the_same_bytes_as_in_kafka(kind: int, record: ShareRecord, value: str) -> None:
    key = encode_key("g", record)
    assert key[:5] == kind.to_bytes(2, "big") + b"\0\1g"
    assert encode_value(record) == bytes.fromhex(value)
    assert decode(key, encode_value(record)) == ("g", record)


@pytest.mark.parametrize("record", [record for _, record, _ in RECORDS], ids=IDS)
def test_encoded_tombstone_is_decoded_as_a_tombstone(record: ShareRecord) -> None:
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
        if again[2:] != value:  # Apache's samples have unsorted partitions and empty topics
            assert decode(stored_key, again) == stored
            assert "Assignment" in name or "State" in name


@given(share_records)
def test_encoded_record_is_decoded_to_the_same_record(record: ShareRecord) -> None:
    assert decode(encode_key("g", record), encode_value(record)) == ("g", record)


def test_key_of_another_record_type_is_not_decoded() -> None:
    assert decode(b"\0\3\0\1g", None) is None


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
        decode(encode_key("g", ShareEpochRecord(None)), value)


def test_string_too_long_for_a_record_key_is_refused() -> None:
    with pytest.raises(UnwritableRun, match="40000 bytes"):
        encode_key("g" * 40_000, ShareEpochRecord(None))


def test_adjacent_records_of_a_share_group_are_decoded_as_one_run() -> None:
    records = [record for _, record, _ in RECORDS]
    runs: list[Run] = [ShareGroupRun("g", records), ShareGroupRun("h", records[:1])]
    sections, count = [], 0
    for run in runs:
        sections.append(run_records(run, count))
        count += len(run)
    found = runs_of_section(b"".join(sections), 40, count, None, AT_MS)
    assert found == [
        (40, ShareGroupRun("g", records, AT_MS)),
        (40 + len(records), ShareGroupRun("h", records[:1], AT_MS)),
    ]
