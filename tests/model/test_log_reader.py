"""Tests of the second log reader with records of Apache Kafka and with batches that are encoded by
hand."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from tests.model.log_reader import (
    ModelMember,
    group_of_value,
    offset_of_value,
    read_log,
    slow_crc32c,
)

GOLDEN = Path(__file__).parent.parent / "data" / "golden" / "records.jsonl"


def golden(record: str) -> list[dict]:
    rows = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
    return [row for row in rows if row["record"] == record]


def test_slow_crc32c_returns_the_standard_check_value() -> None:
    assert slow_crc32c(b"123456789") == 0xE3069283


@pytest.mark.parametrize("row", golden("OffsetCommitValue"), ids=lambda row: f"v{row['version']}")
def test_function_offset_of_value_decodes_kafka_values_of_every_version(row: dict) -> None:
    data = row["version"].to_bytes(2, "big") + bytes.fromhex(row["hex"])
    value = row["value"]
    assert offset_of_value(data, 7) == (
        value["offset"],
        value.get("leaderEpoch", -1),
        value["metadata"],
        value["commitTimestamp"],
        value.get("expireTimestamp", -1),
        7,
    )


@pytest.mark.parametrize("row", golden("GroupMetadataValue"), ids=lambda row: f"v{row['version']}")
def test_function_group_of_value_decodes_kafka_values_of_every_version(row: dict) -> None:
    data = row["version"].to_bytes(2, "big") + bytes.fromhex(row["hex"])
    value = row["value"]
    group = group_of_value(data)
    assert group[:5] == (
        value["protocolType"],
        value["generation"],
        value["protocol"],
        value["leader"],
        value.get("currentStateTimestamp", -1),
    )
    assert list(group.members) == [
        ModelMember(
            member["memberId"],
            member.get("groupInstanceId"),
            member["clientId"],
            member["clientHost"],
            member.get("rebalanceTimeout", member["sessionTimeout"]),
            member["sessionTimeout"],
            base64.b64decode(member["subscription"]),
            base64.b64decode(member["assignment"]),
        )
        for member in value["members"]
    ]


def batch(base_offset: int, *records: bytes) -> bytes:
    checked = (
        bytes(2)
        + (len(records) - 1).to_bytes(4, "big")
        + (5).to_bytes(8, "big") * 2
        + b"\xff" * 14
        + len(records).to_bytes(4, "big")
        + b"".join(bytes([2 * len(record)]) + record for record in records)
    )
    body = bytes(4) + b"\x02" + slow_crc32c(checked).to_bytes(4, "big") + checked
    return base_offset.to_bytes(8, "big") + len(body).to_bytes(4, "big") + body


def record(delta: int, key: bytes, value: bytes | None) -> bytes:
    value_bytes = b"\x01" if value is None else bytes([2 * len(value)]) + value
    return bytes([0, 0, 2 * delta, 2 * len(key)]) + key + value_bytes + b"\0"


KEY = b"\0\x01" + b"\0\x01g" + b"\0\x01t" + bytes(4)
VALUE_0 = bytes(2) + (42).to_bytes(8, "big") + b"\0\x02hi" + (9).to_bytes(8, "big")


def test_function_read_log_returns_the_last_value_until_a_tombstone() -> None:
    once = batch(0, record(0, KEY, VALUE_0), record(1, KEY, VALUE_0))
    assert read_log(once).offsets == {"g": {("t", 0): (42, -1, "hi", 9, -1, 1)}}
    assert read_log(once + batch(2, record(0, KEY, None))).offsets == {}


def test_function_read_log_counts_keys_of_unknown_types() -> None:
    state = read_log(batch(0, record(0, b"\0\x10" + b"\0\x01g", b"")))
    assert (state.unknown_keys, state.offsets, state.groups) == (1, {}, {})


def test_function_read_log_raises_an_error_when_a_bit_is_flipped() -> None:
    data = bytearray(batch(0, record(0, KEY, VALUE_0)))
    data[-2] ^= 1
    with pytest.raises(AssertionError, match="CRC"):
        read_log(bytes(data))
