"""The rules for produced records of any format. The topic's settings determine the rules."""

from __future__ import annotations

from collections.abc import Sequence

from protocol.buffer import Buffer
from protocol.errors import INVALID_RECORD, INVALID_TIMESTAMP, MESSAGE_TOO_LARGE
from protocol.records.batch import CREATE_TIME, DECOMPRESSED_BYTES_MAX, BatchHeader
from protocol.records.corrupt import CorruptRecords, RecordError
from protocol.records.section import NO_TIMESTAMP, CheckedSection
from protocol.slotted import slotted

_INT64_MIN = -(1 << 63)
_INT64_MAX = (1 << 63) - 1

RECORD_ERRORS_MAX = 100
"""The maximum number of invalid records that one response reports. A batch may have a million
invalid records, each with a message."""


@slotted(frozen=True)
class ProduceRules:
    """The settings of topic and broker for validation, in Kafka's units.

    ``compression`` is a codec; None means ``producer``. ``compression_level`` None means the
    codec's default. A bound of timestamps is None if it has Kafka's default, which is the largest
    long.
    """

    max_message_bytes: int = 1048588
    segment_bytes: int = 1 << 30
    compacted: bool = False
    timestamp_type: int = CREATE_TIME
    compression: int | None = None
    compression_level: int | None = None
    timestamp_before_max_ms: int | None = None
    timestamp_after_max_ms: int | None = None
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX
    magic: int = 2
    """The format in which records are stored: message.format.version."""


DEFAULT_RULES = ProduceRules()


@slotted
class Produced:
    """Validated records that can be appended: batches of magic 2 whose base offsets are still 0, or
    a message set of the topic's older magic with offsets from 0.

    ``data`` is the request's own bytes if no change was necessary. ``batches`` are the headers in
    ``data``; empty if an old client sent an empty set.
    """

    data: Buffer
    batches: list[BatchHeader]
    converted: int = 0
    """The number of records that were converted to another magic."""


def too_large(size_bytes: int, rules: ProduceRules) -> CorruptRecords:
    return CorruptRecords(
        f"The record batch of {size_bytes} bytes exceeds max.message.bytes,"
        f" {rules.max_message_bytes}.",
        MESSAGE_TOO_LARGE,
    )


def check_size(size_bytes: int, rules: ProduceRules) -> None:
    """Raises CorruptRecords for a batch or message above max.message.bytes."""
    if size_bytes > rules.max_message_bytes:
        raise too_large(size_bytes, rules)


def without_keys(indexes: Sequence[int]) -> CorruptRecords:
    """Returns the error for records without a key in a compacted topic. ``indexes`` are the indexes
    of these records."""
    why = "Compacted topic cannot accept message without key."
    errors = [RecordError(index, why) for index in indexes[:RECORD_ERRORS_MAX]]
    return refused_records(errors, INVALID_RECORD, len(indexes))


def append_time_from_client(count: int) -> CorruptRecords:
    """Returns the error for ``count`` records that claim to have log append time."""
    why = "Invalid timestamp type: only the broker sets LogAppendTime."
    errors = [RecordError(index, why) for index in range(min(count, RECORD_ERRORS_MAX))]
    return refused_records(errors, INVALID_TIMESTAMP, count)


def has_time_bounds(rules: ProduceRules) -> bool:
    """Returns True if the settings can reject a record for its timestamp."""
    return rules.timestamp_type == CREATE_TIME and (
        rules.timestamp_before_max_ms is not None or rules.timestamp_after_max_ms is not None
    )


def _bounds(now_ms: int, rules: ProduceRules) -> tuple[int, int]:
    before, after = rules.timestamp_before_max_ms, rules.timestamp_after_max_ms
    return (
        _INT64_MIN if before is None else now_ms - before,
        _INT64_MAX if after is None else now_ms + after,
    )


def in_bounds(checked: CheckedSection, now_ms: int, rules: ProduceRules) -> bool:
    """Returns True if all timestamps of a section are within the topic's bounds around
    ``now_ms``."""
    low, high = _bounds(now_ms, rules)
    return low <= checked.min_timestamp and checked.max_timestamp <= high


def check_times(timestamps: Sequence[int], now_ms: int, rules: ProduceRules) -> None:
    """Raises CorruptRecords with the index of each timestamp that is out of bounds. -1 is always
    valid."""
    low, high = _bounds(now_ms, rules)
    blamed = [
        index
        for index, timestamp in enumerate(timestamps)
        if timestamp != NO_TIMESTAMP and not low <= timestamp <= high
    ]
    if blamed:
        errors = [
            RecordError(index, f"Timestamp {timestamps[index]} is out of range [{low}, {high}].")
            for index in blamed[:RECORD_ERRORS_MAX]
        ]
        raise refused_records(errors, INVALID_TIMESTAMP, len(blamed))


def refused_records(errors: list[RecordError], error_code: int, count: int) -> CorruptRecords:
    """Returns the error for ``count`` invalid records. ``errors`` describes the first of them. As
    in Kafka, the error message names at most three records."""
    shown = "; ".join(f"record {index}: {why}" for index, why in errors[:3])
    return CorruptRecords(f"{count} records are rejected. {shown}", error_code, tuple(errors))
