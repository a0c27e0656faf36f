"""Validation of what Produce brings, before anything is appended.

The order of checks is Kafka's: what the request's version allows, then each batch from outside
(length, size, CRC), then its header, then its records. Where Kafka trims bytes behind the last
whole batch and answers success, this refuses them: what is acknowledged is what was sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from protocol.errors import (
    INVALID_RECORD,
    INVALID_TIMESTAMP,
    MESSAGE_TOO_LARGE,
    RECORD_LIST_TOO_LARGE,
    UNSUPPORTED_COMPRESSION_TYPE,
)
from protocol.records.batch import (
    CODEC_BITS,
    CREATE_TIME,
    DECOMPRESSED_BYTES_MAX,
    LOG_APPEND_TIME,
    BatchHeader,
    assemble_batch,
    iter_batches,
    patch_max_timestamp,
    read_header,
    section_of,
    validate_batch,
)
from protocol.records.compression import ZSTD
from protocol.records.convert import batch_of_set
from protocol.records.corrupt import CorruptRecords, RecordError
from protocol.records.crc import Buffer
from protocol.records.message_set import read_set
from protocol.records.section import NO_TIMESTAMP, CheckedSection, check_section, decode_section

_MAGIC_POSITION = 16
_SMALLEST_ENTRY_BYTES = 26  # a message of magic 0 with null key and value
_INT64_MIN = -(1 << 63)
_INT64_MAX = (1 << 63) - 1

RECORD_ERRORS_MAX = 100
"""How many records one answer blames; a batch may hold a million, each with a text of its own."""


@dataclass(frozen=True, slots=True)
class ProduceRules:
    """The topic's and broker's settings that bear on validation, in Kafka's units.

    ``compression`` is a codec or None for ``producer``; the two timestamp bounds are None where
    Kafka's default, the largest long, is set.
    """

    max_message_bytes: int = 1048588
    segment_bytes: int = 1 << 30
    compacted: bool = False
    timestamp_type: int = CREATE_TIME
    compression: int | None = None
    timestamp_before_max_ms: int | None = None
    timestamp_after_max_ms: int | None = None
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX


DEFAULT_RULES = ProduceRules()


@dataclass(slots=True)
class Produced:
    """What may be appended: whole batches of magic 2 whose base offsets are still 0.

    ``data`` is the request's own bytes where nothing had to be changed; ``batches`` are the
    headers in ``data``, empty when an old client sent an empty set.
    """

    data: Buffer
    batches: list[BatchHeader]


def analyse(
    records: Buffer | None, api_version: int, now_ms: int, rules: ProduceRules = DEFAULT_RULES
) -> Produced:
    """Validate the records of one partition of a Produce request of ``api_version``.

    ``now_ms`` is wall time in milliseconds. Raises CorruptRecords with Kafka's error code and,
    where single records are to blame, their indexes.
    """
    data: Buffer = b"" if records is None else records
    _check_version_rules(data, api_version)
    if not data:
        return Produced(b"", [])
    if data[_MAGIC_POSITION] < 2:
        data = _convert(data, now_ms, rules)
        headers = [read_header(data)]
        _check_size(headers[0].size_bytes, rules)
    else:
        headers = []
        for header, _ in iter_batches(data):
            if api_version < 7 and header.compression == ZSTD:
                raise CorruptRecords(
                    f"Produce requests with version {api_version} may not use zstd compression.",
                    UNSUPPORTED_COMPRESSION_TYPE,
                )
            _check_size(header.size_bytes, rules)
            validate_batch(data, header)
            _check_header(header)
            headers.append(header)
        data, headers = _check_records(data, headers, now_ms, rules)
    if len(data) > rules.segment_bytes:
        raise CorruptRecords(
            f"The record list of {len(data)} bytes exceeds the segment size of"
            f" {rules.segment_bytes} bytes.",
            RECORD_LIST_TOO_LARGE,
        )
    return Produced(data, headers)


def _check_version_rules(data: Buffer, api_version: int) -> None:
    """What ProduceRequest itself demands of its version."""
    if api_version >= 3 and not data:
        raise CorruptRecords(
            f"Produce requests with version {api_version} must have a record batch.",
            INVALID_RECORD,
        )
    if not data:
        return
    if len(data) < _SMALLEST_ENTRY_BYTES:
        raise CorruptRecords(f"{len(data)} bytes of records are neither a batch nor a message.")
    magic = data[_MAGIC_POSITION]
    if magic > 2:
        raise CorruptRecords(f"Magic {magic} does not exist.")
    if api_version < 3:
        return
    if magic != 2:
        raise CorruptRecords(
            f"Produce requests with version {api_version} may only hold batches of magic 2, not"
            f" {magic}.",
            INVALID_RECORD,
        )
    header = read_header(data)
    if header.end < len(data):
        raise CorruptRecords(
            f"Produce requests with version {api_version} must have exactly one record batch per"
            f" partition; {len(data) - header.end} bytes follow the first.",
            INVALID_RECORD,
        )


def _check_size(size_bytes: int, rules: ProduceRules) -> None:
    if size_bytes > rules.max_message_bytes:
        raise CorruptRecords(
            f"The record batch of {size_bytes} bytes exceeds max.message.bytes,"
            f" {rules.max_message_bytes}.",
            MESSAGE_TOO_LARGE,
        )


def _check_header(header: BatchHeader) -> None:
    """What Kafka demands of a client's batch header; the CRC holds already."""
    count = header.record_count
    if header.base_offset != 0:
        problem = f"The base offset of an appended batch must be 0, not {header.base_offset}."
    elif count < 1:
        problem = f"A batch claims {count} records."
    elif header.last_offset_delta != count - 1:
        problem = f"A batch of {count} records has last offset delta {header.last_offset_delta}."
    elif header.is_control:
        problem = "Clients may not write control records."
    elif header.producer_id >= 0 and header.base_sequence < 0:
        problem = (
            f"Producer {header.producer_id} sent sequence number {header.base_sequence}, which"
            " must be 0 or more."
        )
    else:
        return
    raise CorruptRecords(problem, INVALID_RECORD)


def _check_records(
    data: Buffer, headers: list[BatchHeader], now_ms: int, rules: ProduceRules
) -> tuple[Buffer, list[BatchHeader]]:
    """Check every record; change what the topic's settings change."""
    changed: list[bytearray | None] = []
    for header in headers:
        section = section_of(data, header, rules.decompressed_bytes_max)
        checked = check_section(
            section, header.record_count, header.base_timestamp, rules.compacted
        )
        _check_keys(checked.null_keys)
        if header.timestamp_type == LOG_APPEND_TIME:
            raise _append_time_from_client(header.record_count)
        if _has_time_bounds(rules) and not _in_bounds(checked, now_ms, rules):
            records = decode_section(
                section, header.record_count, 0, header.base_timestamp, header.last_offset_delta
            )
            _check_times([record.timestamp for record in records], now_ms, rules)
        latest = now_ms if rules.timestamp_type == LOG_APPEND_TIME else checked.max_timestamp
        changed.append(_adjusted(data, header, section, latest, rules))
    if not any(changed):
        return data, headers
    view = memoryview(data)
    joined = b"".join(
        view[header.position : header.end] if batch is None else batch
        for header, batch in zip(headers, changed, strict=True)
    )
    return joined, [header for header, _ in iter_batches(joined)]


def _adjusted(
    data: Buffer, header: BatchHeader, section: bytes, max_timestamp: int, rules: ProduceRules
) -> bytearray | None:
    """The batch in the topic's codec and timestamp type, with ``max_timestamp``.

    None when nothing changes: the common case.
    """
    codec = header.compression if rules.compression is None else rules.compression
    if codec != header.compression:
        batch = bytearray(
            assemble_batch(
                section,
                header.record_count,
                0,
                header.base_timestamp,
                max_timestamp,
                leader_epoch=header.partition_leader_epoch,
                compression=codec,
                attributes=header.attributes & ~CODEC_BITS,
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                base_sequence=header.base_sequence,
            )
        )
        _check_size(len(batch), rules)
    elif (rules.timestamp_type, max_timestamp) != (CREATE_TIME, header.max_timestamp):
        batch = bytearray(memoryview(data)[header.position : header.end])
    else:
        return None
    patch_max_timestamp(batch, read_header(batch), max_timestamp, rules.timestamp_type)
    return batch


def _convert(data: Buffer, now_ms: int, rules: ProduceRules) -> bytes:
    """Turn a message set of an old client into one batch, with the checks of one."""
    decoded = read_set(data, rules.decompressed_bytes_max)
    _check_size(decoded.largest_entry_bytes, rules)
    if rules.compacted:
        _check_keys([i for i, record in enumerate(decoded.records) if record.key is None])
    if decoded.timestamp_type == LOG_APPEND_TIME:
        raise _append_time_from_client(len(decoded.records))
    if _has_time_bounds(rules):
        _check_times([record.timestamp for record in decoded.records], now_ms, rules)
    batch = batch_of_set(
        decoded, now_ms, timestamp_type=rules.timestamp_type, compression=rules.compression
    )
    _check_size(len(batch), rules)
    return batch


def _check_keys(null_keys: Sequence[int]) -> None:
    if null_keys:
        raise _refused_records(
            [
                RecordError(index, "Compacted topic cannot accept message without key.")
                for index in null_keys
            ],
            INVALID_RECORD,
        )


def _append_time_from_client(count: int) -> CorruptRecords:
    why = "Invalid timestamp type: a producer may not set it to LogAppendTime."
    return _refused_records(
        [RecordError(index, why) for index in range(min(count, RECORD_ERRORS_MAX))],
        INVALID_TIMESTAMP,
    )


def _has_time_bounds(rules: ProduceRules) -> bool:
    return rules.timestamp_type == CREATE_TIME and (
        rules.timestamp_before_max_ms is not None or rules.timestamp_after_max_ms is not None
    )


def _bounds(now_ms: int, rules: ProduceRules) -> tuple[int, int]:
    before, after = rules.timestamp_before_max_ms, rules.timestamp_after_max_ms
    return (
        _INT64_MIN if before is None else now_ms - before,
        _INT64_MAX if after is None else now_ms + after,
    )


def _in_bounds(checked: CheckedSection, now_ms: int, rules: ProduceRules) -> bool:
    low, high = _bounds(now_ms, rules)
    return low <= checked.min_timestamp and checked.max_timestamp <= high


def _check_times(timestamps: Sequence[int], now_ms: int, rules: ProduceRules) -> None:
    low, high = _bounds(now_ms, rules)
    errors = [
        RecordError(index, f"Timestamp {timestamp} is out of range [{low}, {high}].")
        for index, timestamp in enumerate(timestamps)
        if timestamp != NO_TIMESTAMP and not low <= timestamp <= high
    ]
    if errors:
        raise _refused_records(errors, INVALID_TIMESTAMP)


def _refused_records(errors: list[RecordError], error_code: int) -> CorruptRecords:
    """All that is wrong with single records; like Kafka, the text shows the first three."""
    shown = "; ".join(f"record {index}: {why}" for index, why in errors[:3])
    return CorruptRecords(
        f"{len(errors)} records are refused. {shown}", error_code, tuple(errors[:RECORD_ERRORS_MAX])
    )
