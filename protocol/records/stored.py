"""The entries of a log of any Kafka version: batches of magic 2, and messages of magic 0 and 1.

An *entry* is a batch, or one message of an old set. The message may be a wrapper. All entries begin
with an offset and a size and have the magic at the same position, so a `BatchHeader` can describe
every entry.

For an old message, base offset and last offset are the offset of the message. For a wrapper this is
the offset of its last inner message, because the offset of the first inner message is known only
after decompression. Leader epoch and producer are missing. The largest timestamp is that of the
message (magic 0: none). The record count of a wrapper is -1.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from protocol.buffer import Buffer
from protocol.records.batch import (
    DECOMPRESSED_BYTES_MAX,
    HEADER_BYTES,
    BatchHeader,
    read_header,
    records_of,
    validate_batch,
)
from protocol.records.compression import NAMES, ZSTD
from protocol.records.corrupt import CorruptRecords
from protocol.records.crc import crc32
from protocol.records.message_set import iter_messages, unwrap
from protocol.records.section import NO_TIMESTAMP, Record

OVERHEAD = 12
SMALLEST_BYTES = (26, 34, HEADER_BYTES)
"""The minimum size in bytes of an entry of magic 0, 1 and 2."""
ATTRIBUTES = (0x07, 0x0F)
"""The attribute bits that are defined in magic 0 (the codec) and in magic 1 (the codec and log
append time)."""

_OLD = struct.Struct(">qiIbB")
_TIMESTAMP = struct.Struct(">q")
_TIMESTAMP_POSITION = 18
_SIZE = struct.Struct(">8xi")
MAGIC_POSITION = 16
_OFFSET_MAX = (1 << 63) - 1
UNKNOWN_COUNT = -1


def read_stored(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Reads the header of the entry at ``position``, of any magic, without checking its CRC.

    Raises CorruptRecords if the entry has an unknown magic, is shorter than its magic allows, or is
    longer than the buffer.
    """
    left = len(buffer) - position
    if left <= MAGIC_POSITION or buffer[position + MAGIC_POSITION] not in (0, 1):
        return read_header(buffer, position)
    if left < SMALLEST_BYTES[buffer[position + MAGIC_POSITION]]:
        raise CorruptRecords(f"The last {left} bytes are not a message.")
    offset, size, crc, magic, attributes = _OLD.unpack_from(buffer, position)
    if not SMALLEST_BYTES[magic] <= size + OVERHEAD <= left:
        raise CorruptRecords(
            f"The message at offset {offset} has a size of {size} bytes, but"
            f" {left - OVERHEAD} are left."
        )
    if not 0 <= offset < _OFFSET_MAX:
        raise CorruptRecords(f"The message has offset {offset}, which is out of range.")
    attributes &= ATTRIBUTES[magic]
    timestamp = NO_TIMESTAMP
    if magic:
        (timestamp,) = _TIMESTAMP.unpack_from(buffer, position + _TIMESTAMP_POSITION)
    header = BatchHeader(
        base_offset=offset,
        batch_length=size,
        partition_leader_epoch=-1,
        magic=magic,
        crc=crc,
        attributes=attributes,
        last_offset_delta=0,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=1,
        position=position,
    )
    if header.compression:
        header.record_count = UNKNOWN_COUNT
    return header


def iter_stored(buffer: Buffer, partial: bool = False) -> Iterator[tuple[BatchHeader, int]]:
    """Yields the header and the position of each entry in ``buffer``.

    The end of ``buffer`` may be an incomplete entry, as in a Fetch response. With ``partial`` this
    entry is omitted; otherwise CorruptRecords is raised.
    """
    position = 0
    size = len(buffer)
    while position < size:
        if partial:
            left = size - position
            if left <= MAGIC_POSITION or left < OVERHEAD + _SIZE.unpack_from(buffer, position)[0]:
                return
            if buffer[position + MAGIC_POSITION] == 2 and left < HEADER_BYTES:
                return
        header = read_stored(buffer, position)
        yield header, position
        position = header.end


def validate_stored(buffer: Buffer, header: BatchHeader) -> None:
    """Checks the CRC and the codec of an entry. Raises CorruptRecords."""
    if header.magic == 2:
        validate_batch(buffer, header)
        return
    actual = crc32(memoryview(buffer)[header.position + MAGIC_POSITION : header.end])
    if actual != header.crc:
        raise CorruptRecords(
            f"The message at offset {header.base_offset} has CRC 0x{header.crc:08x},"
            f" but its bytes have 0x{actual:08x}."
        )
    if header.compression >= len(NAMES) or header.compression == ZSTD:
        raise CorruptRecords(
            f"Compression type {header.compression} does not exist in magic {header.magic}."
        )


def stored_records(
    buffer: Buffer, header: BatchHeader, limit: int = DECOMPRESSED_BYTES_MAX
) -> list[Record]:
    """Returns the records of a batch or message with their offsets in the log. Decompresses to at
    most ``limit`` bytes. Raises CorruptRecords."""
    if header.magic == 2:
        return records_of(buffer, header, limit)
    (message,) = iter_messages(memoryview(buffer)[header.position : header.end])
    return unwrap(message, limit)
