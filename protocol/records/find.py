"""Finds the first record at or above an offset in a batch, without decoding the records before it.

Keys, values and headers are views of the batch's bytes or of its decompressed bytes. The cost is
therefore the decompression plus one step per preceding record, whatever the size of the records.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from protocol.buffer import Buffer
from protocol.errors import INVALID_RECORD
from protocol.records.batch import (
    DECOMPRESSED_BYTES_MAX,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    BatchHeader,
)
from protocol.records.budget import OverBudget
from protocol.records.compression import NONE, unpack
from protocol.records.corrupt import CorruptRecords
from protocol.records.section import NO_TIMESTAMP, wrap_int64
from protocol.records.varint import read_varint, read_varlong

PASSED_MAX = 1_000_000
"""The maximum number of records that are skipped in one batch. Skipping this many takes about a
second."""

_MESSAGE = struct.Struct(">qiIbb")
_INT64 = struct.Struct(">q")
_INT32 = struct.Struct(">i")
_OVERHEAD = 12
_CODEC_BITS = 0x07

Header = tuple[memoryview, memoryview | None]


class Found(NamedTuple):
    """A record. Its bytes are views of its batch."""

    offset: int
    timestamp: int
    """The timestamp of the record in wall milliseconds; -1 if its format has no timestamps."""
    key: memoryview | None
    value: memoryview | None
    headers: list[Header]
    """The first headers of the record, at most the ``headers_max`` that `find_record` received."""
    header_count: int
    size_bytes: int
    """The uncompressed size of the record in bytes."""


def find_record(
    buffer: Buffer,
    header: BatchHeader,
    offset: int,
    headers_max: int,
    limit: int = DECOMPRESSED_BYTES_MAX,
) -> Found | None:
    """Returns the first record at or above ``offset`` in an entry of any magic; None if the entry
    has no such record.

    The entry's CRC is not checked. At most ``limit`` bytes are decompressed. Raises CorruptRecords,
    and OverBudget if more than PASSED_MAX records would be skipped.
    """
    entry = memoryview(buffer)[header.position : header.end]
    if header.magic == 2:
        return _in_batch(_opened(entry[HEADER_BYTES:], header, limit), header, offset, headers_max)
    return _in_messages(entry, header, offset, limit)


def _opened(data: memoryview, header: BatchHeader, limit: int) -> memoryview:
    """Returns the decompressed bytes of an entry. Bytes that are not compressed are not copied."""
    if header.compression == NONE:
        return data
    return memoryview(unpack(header.compression, data, limit, header.magic))


def _check_passed(passed: int) -> None:
    if passed >= PASSED_MAX:
        raise OverBudget(
            f"The batch has more than {PASSED_MAX:,} records before this record; the broker can't"
            " search that far."
        )


# --------------------------------------------------------------------------------------- magic 2


def _in_batch(
    section: memoryview, header: BatchHeader, offset: int, headers_max: int
) -> Found | None:
    position = 0
    is_whole = header.record_count == header.last_offset_delta + 1
    before = offset - header.base_offset if is_whole else 0
    for index in range(header.record_count):
        _check_passed(index)
        length, begin = read_varint(section, position)
        end = begin + length
        if length < 0 or end > len(section):
            raise _misfit(index)
        if index < before:
            position = end
            continue
        timestamp_delta, at = read_varlong(section, begin + 1)
        delta, at = read_varint(section, at)
        if not 0 <= delta <= header.last_offset_delta or at > end:
            raise _misfit(index)
        if header.base_offset + delta >= offset:
            timestamp = wrap_int64(header.base_timestamp + timestamp_delta)
            if header.timestamp_type == LOG_APPEND_TIME:
                timestamp = header.max_timestamp
            key, at = _nullable(section, at, end)
            value, at = _nullable(section, at, end)
            count, headers = _headers(section, at, end, headers_max)
            return Found(
                header.base_offset + delta, timestamp, key, value, headers, count, end - position
            )
        position = end
    return None


def _nullable(section: memoryview, position: int, end: int) -> tuple[memoryview | None, int]:
    length, position = read_varint(section, position)
    if length == -1:
        return None, position
    if not 0 <= length <= end - position:
        raise CorruptRecords(
            f"A key, value or header has a length of {length} bytes, but"
            f" {end - position} are left.",
            INVALID_RECORD,
        )
    return section[position : position + length], position + length


def _headers(
    section: memoryview, position: int, end: int, at_most: int
) -> tuple[int, list[Header]]:
    count, position = read_varint(section, position)
    if count < 0 or 2 * count > end - position:
        raise CorruptRecords(
            f"A record states {count} headers, but only {end - position} bytes are left.",
            INVALID_RECORD,
        )
    headers: list[Header] = []
    for _ in range(min(count, at_most)):
        name, position = _nullable(section, position, end)
        if name is None:
            raise CorruptRecords("A header must not have a null key.", INVALID_RECORD)
        content, position = _nullable(section, position, end)
        headers.append((name, content))
    return count, headers


def _misfit(index: int) -> CorruptRecords:
    return CorruptRecords(
        f"The length or offset of record {index} does not fit its batch.", INVALID_RECORD
    )


# --------------------------------------------------------------------------------- magic 0 and 1


class _Message(NamedTuple):
    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: memoryview | None
    value: memoryview | None
    size_bytes: int


def _in_messages(entry: memoryview, header: BatchHeader, offset: int, limit: int) -> Found | None:
    """Searches for the record in an uncompressed message or in a wrapper. In a wrapper of magic 1
    the inner offsets are relative."""
    (message,) = _messages(entry)
    if not header.compression:
        return _found(message, message.offset, message.timestamp, offset)
    if message.value is None:
        raise CorruptRecords(f"The wrapper message at offset {message.offset} must have a value.")
    inner = _opened(message.value, header, limit)
    shift = 0
    for index, each in enumerate(_messages(inner)):
        _check_passed(index)
        if each.magic != message.magic or each.attributes & _CODEC_BITS:
            raise CorruptRecords(
                "A message in a wrapper message must have the magic of the wrapper and must not"
                " be compressed."
            )
        shift = message.offset - each.offset if message.magic == 1 else 0
    append_time = header.timestamp_type == LOG_APPEND_TIME and message.magic == 1
    for each in _messages(inner):
        timestamp = message.timestamp if append_time else each.timestamp
        found = _found(each, each.offset + shift, timestamp, offset)
        if found is not None:
            return found
    return None


def _found(message: _Message, offset: int, timestamp: int, wanted: int) -> Found | None:
    if offset < wanted:
        return None
    return Found(offset, timestamp, message.key, message.value, [], 0, message.size_bytes)


def _messages(data: memoryview) -> Iterator[_Message]:
    position = 0
    try:
        while position < len(data):
            offset, size, _, magic, attributes = _MESSAGE.unpack_from(data, position)
            end = position + _OVERHEAD + size
            at = position + _MESSAGE.size
            if magic not in (0, 1) or not at <= end <= len(data):
                raise CorruptRecords(
                    f"The message at offset {offset} does not fit its message set."
                )
            timestamp = NO_TIMESTAMP
            if magic:
                (timestamp,) = _INT64.unpack_from(data, at)
                at += 8
            key, at = _long_nullable(data, at, end)
            value, at = _long_nullable(data, at, end)
            yield _Message(offset, magic, attributes, timestamp, key, value, end - position)
            position = end
    except struct.error:
        raise CorruptRecords("A message is truncated.") from None


def _long_nullable(data: memoryview, position: int, end: int) -> tuple[memoryview | None, int]:
    (length,) = _INT32.unpack_from(data, position)
    position += 4
    if length == -1:
        return None, position
    if not 0 <= length <= end - position:
        raise CorruptRecords(
            f"A key or value has a length of {length} bytes, but {end - position} are left."
        )
    return data[position : position + length], position + length
