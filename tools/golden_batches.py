"""Checks the golden vectors of message sets, record batches and markers, for
``check_golden.py``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from protocol.records import batch, markers, message_set
from protocol.records.compression import NAMES, decompress

LIMIT = batch.DECOMPRESSED_BYTES_MAX
OUTCOMES = {"ABORT": batch.ABORT, "COMMIT": batch.COMMIT}


def check_batches(vector: dict[str, Any]) -> str | None:
    """Checks a vector of message sets or batches. Returns the error, or None if the vector is
    correct."""
    data = bytes.fromhex(vector["hex"])
    if "control" in vector:
        wrong = check_control(vector, data)
    elif vector["magic"] == 2:
        wrong = check_magic2(vector, data)
    else:
        wrong = check_set(vector, data)
    return next(wrong, None)


def in_golden(records: Sequence[batch.Record]) -> list[dict[str, Any]]:
    return [
        {
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": _hex(record.key),
            "value": _hex(record.value),
            "headers": [[key, _hex(value)] for key, value in record.headers],
        }
        for record in records
    ]


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def _differ(what: str, ours: Any, theirs: Any) -> Iterator[str]:
    if ours != theirs:
        yield f"{what}: {ours} is not {theirs}"


def check_magic2(vector: dict[str, Any], data: bytes) -> Iterator[str]:
    """Yields the differences between ``vector``, the expected content of record batches, and
    ``data``: in headers, in records, and in the bytes after encoding the records again."""
    headers = [header for header, _ in batch.iter_batches(data)]
    append_time = vector["timestamp_type"] == "LogAppendTime"
    said = []
    records: list[batch.Record] = []
    for header in headers:
        batch.validate_batch(data, header, deep=False)
        yield from _differ("codec", NAMES[header.compression], vector["compression"])
        yield from _differ("timestamp type", header.timestamp_type, int(append_time))
        records += batch.records_of(data, header)
        said.append(
            {
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
            }
        )
    yield from _differ("headers", said, vector["batches"])
    yield from _differ("records", in_golden(records), vector["records"])
    for header in headers:
        yield from _encoded_again(data, header)


def _encoded_again(data: bytes, header: batch.BatchHeader) -> Iterator[str]:
    again = batch.encode_batch(
        batch.records_of(data, header, stored_timestamps=True),
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp,
        compression=header.compression,
        leader_epoch=header.partition_leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        timestamp_type=header.timestamp_type,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
    )
    if not header.compression:
        yield from _differ("encoded", again.hex(), data[header.position : header.end].hex())
        return
    # Compressed bytes may differ; contents and header, except size and checksum, must be equal.
    ours = batch.read_header(again)
    batch.validate_batch(again, ours, deep=False)
    yield from _differ("section", batch.section_of(again, ours), batch.section_of(data, header))
    ours.batch_length, ours.crc, ours.position = header.batch_length, header.crc, header.position
    yield from _differ("header", ours, header)


def check_set(vector: dict[str, Any], data: bytes) -> Iterator[str]:
    """Yields the errors of a vector of message sets (magic 0 and 1): in entries, in records, and in
    the bytes after encoding the records again."""
    decoded = message_set.read_set(data)
    append_time = vector["timestamp_type"] == "LogAppendTime"
    yield from _differ("magic", decoded.magic, vector["magic"])
    yield from _differ("codec", NAMES[decoded.compression], vector["compression"])
    yield from _differ("timestamp type", decoded.timestamp_type, int(append_time))
    yield from _differ("records", in_golden(decoded.records), vector["records"])
    entries = list(message_set.iter_messages(data))
    said = [(entry.offset, entry.size_bytes, entry.timestamp) for entry in entries]
    names = ("last_offset", "size", "max_timestamp")
    golden = [tuple(entry[name] for name in names) for entry in vector["batches"]]
    yield from _differ("entries", said, golden)
    again = message_set.encode(
        decoded.records,
        decoded.magic,
        decoded.compression,
        timestamp_type=decoded.timestamp_type,
    )
    if not decoded.compression:
        yield from _differ("encoded", again.hex(), data.hex())
        return
    (theirs,) = entries
    (ours,) = message_set.iter_messages(again)
    codec, magic = decoded.compression, decoded.magic
    yield from _differ(
        "inner set",
        decompress(codec, ours.value or b"", LIMIT, magic),
        decompress(codec, theirs.value or b"", LIMIT, magic),
    )
    ours.value, ours.size_bytes = theirs.value, theirs.size_bytes
    yield from _differ("wrapper", ours, theirs)


def check_control(vector: dict[str, Any], data: bytes) -> Iterator[str]:
    """Yields the errors of a vector of a transaction marker."""
    header = batch.read_header(data)
    batch.validate_batch(data, header, deep=False)
    yield from _differ("control", header.is_control, True)
    (record,) = batch.records_of(data, header)
    again = markers.encode_end_transaction(
        OUTCOMES[vector["control"]],
        base_offset=vector["base_offset"],
        timestamp=record.timestamp,
        producer_id=vector["producer_id"],
        producer_epoch=vector["producer_epoch"],
        coordinator_epoch=vector["coordinator_epoch"],
        leader_epoch=header.partition_leader_epoch,
    )
    yield from _differ("encoded", again.hex(), data.hex())
