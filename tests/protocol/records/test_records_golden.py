"""Tests that each batch and message set that Apache Kafka wrote is decoded, and encoded to the same
bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from protocol.records import batch, convert, markers, message_set
from protocol.records.compression import NAMES, decompress

GOLDEN = Path(__file__).parents[2] / "data" / "golden" / "batches.jsonl"
VECTORS: list[dict[str, Any]] = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
TIMESTAMP_TYPES = {"CreateTime": 0, "LogAppendTime": 1, "NoTimestampType": 0}


def name_of(vector: dict[str, Any]) -> str:
    kind = vector.get("control") or f"{vector['compression']}-{vector['timestamp_type']}"
    return f"magic{vector['magic']}-{kind}"


def of_magic(*magics: int) -> Any:
    found = [v for v in VECTORS if v["magic"] in magics and "control" not in v]
    return pytest.mark.parametrize("vector", found, ids=name_of)


def as_json(records: list[batch.Record]) -> list[dict[str, Any]]:
    return [
        {
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": None if record.key is None else record.key.hex(),
            "value": None if record.value is None else record.value.hex(),
            "headers": [
                [key, None if value is None else value.hex()] for key, value in record.headers
            ],
        }
        for record in records
    ]


def encode_again(data: bytes, header: batch.BatchHeader, compression: int) -> bytes:
    return batch.encode_batch(
        batch.records_of(data, header, stored_timestamps=True),
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp,
        compression=compression,
        leader_epoch=header.partition_leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        timestamp_type=header.timestamp_type,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
    )


def test_golden_vectors_cover_every_magic_and_codec() -> None:
    seen = {(v["magic"], v["compression"]) for v in VECTORS if "control" not in v}
    wanted = {(magic, name) for magic in (0, 1, 2) for name in NAMES}
    assert seen == wanted - {(0, "zstd"), (1, "zstd")}
    assert {v["control"] for v in VECTORS if "control" in v} == {"ABORT", "COMMIT"}


@of_magic(2)
def test_batches_of_kafka_are_read(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    headers = [header for header, _ in batch.iter_batches(data)]
    for header, expected in zip(headers, vector["batches"], strict=True):
        batch.validate_batch(data, header)
        assert {
            "base_offset": header.base_offset,
            "last_offset": header.last_offset,
            "max_timestamp": header.max_timestamp,
            "size": header.size_bytes,
            "checksum": header.crc,
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "base_sequence": header.base_sequence,
            "transactional": header.is_transactional,
            "leader_epoch": header.partition_leader_epoch,
        } == expected
        assert header.timestamp_type == TIMESTAMP_TYPES[vector["timestamp_type"]]
        assert NAMES[header.compression] == vector["compression"]
    records = [record for header in headers for record in batch.records_of(data, header)]
    assert as_json(records) == vector["records"]


@of_magic(2)
def test_decoded_batches_of_kafka_are_encoded_to_the_same_bytes(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    header = batch.read_header(data)
    again = encode_again(data, header, header.compression)
    if not header.compression:
        assert again == data
    # Compressors differ in their output, so the test compares decompressed sections.
    ours = batch.read_header(again)
    assert batch.section_of(again, ours) == batch.section_of(data, header)
    ours.batch_length, ours.crc = header.batch_length, header.crc
    assert ours == header


@of_magic(0, 1)
def test_message_sets_of_kafka_are_read(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    decoded = message_set.read_set(data)
    assert as_json(decoded.records) == vector["records"]
    assert decoded.magic == vector["magic"]
    assert NAMES[decoded.compression] == vector["compression"]
    assert decoded.timestamp_type == TIMESTAMP_TYPES[vector["timestamp_type"]]
    for entry, expected in zip(message_set.iter_messages(data), vector["batches"], strict=True):
        assert (entry.offset, entry.size_bytes) == (expected["last_offset"], expected["size"])
        assert entry.timestamp == expected["max_timestamp"]


@of_magic(0, 1)
def test_decoded_message_sets_of_kafka_are_encoded_to_the_same_bytes(
    vector: dict[str, Any],
) -> None:
    data = bytes.fromhex(vector["hex"])
    decoded = message_set.read_set(data)
    again = message_set.encode(
        decoded.records,
        decoded.magic,
        decoded.compression,
        timestamp_type=decoded.timestamp_type,
    )
    if not decoded.compression:
        assert again == data
        return
    (ours,), (theirs,) = message_set.iter_messages(again), message_set.iter_messages(data)
    assert ours.value is not None
    assert theirs.value is not None
    magic, codec = decoded.magic, decoded.compression
    assert decompress(codec, ours.value, 10_000, magic) == decompress(
        codec, theirs.value, 10_000, magic
    )
    ours.value, ours.size_bytes = theirs.value, theirs.size_bytes
    assert ours == theirs


@of_magic(0, 1)
def test_message_sets_of_kafka_are_converted_to_one_batch(vector: dict[str, Any]) -> None:
    data = convert.to_magic2(bytes.fromhex(vector["hex"]), now_ms=5)
    ((header, _),) = batch.iter_batches(data)
    batch.validate_batch(data, header, deep=True)
    expected = [dict(record, offset=i) for i, record in enumerate(vector["records"])]
    assert as_json(batch.records_of(data, header)) == expected
    assert NAMES[header.compression] == vector["compression"]


@pytest.mark.parametrize("magic", [0, 1])
@of_magic(2)
def test_batches_of_kafka_are_down_converted_to_message_sets(
    magic: int, vector: dict[str, Any]
) -> None:
    data = bytes.fromhex(vector["hex"])
    if vector["compression"] == "zstd":
        with pytest.raises(convert.NoOldForm):
            convert.down_convert(data, magic)
        return
    decoded = message_set.read_set(convert.down_convert(data, magic).data)
    assert decoded.magic == magic
    assert NAMES[decoded.compression] == vector["compression"]
    expected = [
        dict(record, headers=[], timestamp=record["timestamp"] if magic else -1)
        for record in vector["records"]
    ]
    assert as_json(decoded.records) == expected


@pytest.mark.parametrize("vector", [v for v in VECTORS if "control" in v], ids=name_of)
def test_control_batches_of_kafka_are_read_and_written(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    header = batch.read_header(data)
    batch.validate_batch(data, header)
    assert header.is_control
    (record,) = batch.records_of(data, header)
    outcome = {"ABORT": batch.ABORT, "COMMIT": batch.COMMIT}[vector["control"]]
    again = markers.encode_end_transaction(
        outcome,
        base_offset=vector["base_offset"],
        timestamp=record.timestamp,
        producer_id=vector["producer_id"],
        producer_epoch=vector["producer_epoch"],
        coordinator_epoch=vector["coordinator_epoch"],
        leader_epoch=header.partition_leader_epoch,
    )
    assert again == data
    assert convert.down_convert(data, 1).data == b"", "old clients never see markers"
