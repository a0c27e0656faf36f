"""Converts between message sets and batches, for clients older than Kafka 0.11.

Up-conversion: the messages of Produce v0-v2 become one batch. Down-conversion: a response to Fetch
v0-v3 gets no headers, control batches or zstd. Offsets stay the same, and messages that already
have the old format are not changed.
"""

from __future__ import annotations

from typing import NamedTuple

from protocol.buffer import Buffer
from protocol.records.batch import (
    CREATE_TIME,
    DECOMPRESSED_BYTES_MAX,
    LOG_APPEND_TIME,
    assemble_batch,
    encode_batch,
)
from protocol.records.compression import ZSTD
from protocol.records.corrupt import CorruptRecords, NoOldForm
from protocol.records.message_set import MessageSet, encode, read_set
from protocol.records.stored import iter_stored, stored_records


def to_magic2(
    message_set: Buffer,
    now_ms: int,
    *,
    limit: int = DECOMPRESSED_BYTES_MAX,
    timestamp_type: int = CREATE_TIME,
    compression: int | None = None,
) -> bytes:
    """Converts a message set of magic 0 or 1 to one batch with offsets from 0.

    CRCs and inner offsets are checked. Wrappers are decompressed to at most ``limit`` bytes in
    total. The batch has the codec of the set unless ``compression`` is given. Records of magic 0
    get NO_TIMESTAMP. With LOG_APPEND_TIME the batch gets ``now_ms`` (wall milliseconds).
    """
    return batch_of_set(
        read_set(message_set, limit),
        now_ms,
        timestamp_type=timestamp_type,
        compression=compression,
    )


def batch_of_set(
    decoded: MessageSet,
    now_ms: int,
    *,
    timestamp_type: int = CREATE_TIME,
    compression: int | None = None,
    compression_level: int | None = None,
) -> bytes:
    """Converts a decoded message set, which has at least one record, to one batch with offsets from
    0."""
    records = [record._replace(offset=i) for i, record in enumerate(decoded.records)]
    if not records:
        raise CorruptRecords("The message set is empty: it can't be converted to a batch.")
    return encode_batch(
        records,
        compression=decoded.compression if compression is None else compression,
        compression_level=compression_level,
        timestamp_type=timestamp_type,
        max_timestamp=now_ms if timestamp_type == LOG_APPEND_TIME else None,
    )


def assemble_set(
    section: Buffer,
    count: int,
    base_offset: int,
    base_timestamp: int,
    max_timestamp: int,
    *,
    magic: int,
    compression: int = 0,
    compression_level: int | None = None,
    attributes: int = 0,
) -> bytes:
    """Encodes messages of ``magic`` 0 or 1 from a records section of magic 2, with the arguments of
    `assemble_batch`. Raises NoOldForm for zstd."""
    batch = assemble_batch(
        section,
        count,
        base_offset,
        base_timestamp,
        max_timestamp,
        compression=compression,
        compression_level=compression_level,
        attributes=attributes,
    )
    return down_convert(batch, magic).data


class Converted(NamedTuple):
    """Entries in an old format, and the number of records that were converted to this format."""

    data: bytes
    records: int


def needs_conversion(entries: Buffer, magic: int) -> bool:
    """Returns True if a complete entry has a higher magic than ``magic``."""
    return any(header.magic > magic for header, _ in iter_stored(entries, partial=True))


def down_convert(
    entries: Buffer,
    magic: int,
    first_offset: int = 0,
    *,
    limit: int = DECOMPRESSED_BYTES_MAX,
) -> Converted:
    """Converts the entries of a log to message sets of ``magic`` 0 or 1. Entries whose magic is not
    above ``magic`` are not changed.

    A compressed entry becomes one wrapper of the same codec, an uncompressed entry becomes plain
    messages. Records below ``first_offset`` are omitted, and so is an incomplete entry at the end.
    ``limit`` bounds the decompressed bytes of each entry.

    The result ends before the first batch in zstd. Raises NoOldForm if the first batch is in zstd,
    and CorruptRecords for damage.
    """
    view = memoryview(entries)
    parts: list[Buffer] = []
    converted = 0
    for header, position in iter_stored(entries, partial=True):
        if header.magic <= magic:
            parts.append(view[position : header.end])
            continue
        if header.is_control:
            continue
        if header.compression == ZSTD:
            if parts:
                break
            raise NoOldForm(
                f"The batch at offset {header.base_offset} is compressed with zstd, which"
                f" does not exist in magic {magic}."
            )
        records = stored_records(entries, header, limit)
        if not header.compression:
            records = [record for record in records if record.offset >= first_offset]
        if records:
            converted += len(records)
            parts.append(
                encode(
                    records,
                    magic,
                    header.compression,
                    timestamp_type=header.timestamp_type,
                    append_time=header.max_timestamp,
                )
            )
    return Converted(b"".join(parts), converted)
