"""Reading batches out of a segment's file, in bounded chunks.

`headers` looks at headers alone and skips over the records; `whole_batches` reads and checks all.
Nothing is allocated from a claimed length that the file does not hold.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from log.errors import CorruptLog
from log.filesystem import File
from protocol.records.batch import HEADER_BYTES, BatchHeader, read_header, validate_batch
from protocol.records.corrupt import CorruptRecords
from protocol.records.crc import crc32

HEADER_CHUNK_BYTES = 16 * 1024
CHUNK_BYTES = 1024 * 1024

_OVERHEAD = 12
_MAGIC_POSITION = 16
_HEADER = struct.Struct(">qiib4xhi8xqqhi")
_LENGTH_AND_MAGIC = struct.Struct(">8xi4xb")
_OLD_CRC = struct.Struct(">12xI")
_OLD_HEADER_BYTES = 26  # offset, size, crc, magic, attributes, key length, value length


class Header(NamedTuple):
    """What lookups read of a batch; ``position`` and ``end`` are bytes of the file."""

    position: int
    end: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    attributes: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int


def headers(file: File, position: int, end: int) -> Iterator[Header]:
    """The headers of the batches in bytes ``position`` to ``end`` of a segment, without CRC checks.

    ``position`` must be where a batch begins. Raises CorruptLog at what cannot be a batch.
    """
    chunk = b""
    chunk_position = position
    while position < end:
        at = position - chunk_position
        if at + HEADER_BYTES > len(chunk):
            chunk = file.read(position, min(HEADER_CHUNK_BYTES, end - position))
            chunk_position, at = position, 0
            if len(chunk) < HEADER_BYTES:
                raise CorruptLog(file.path, position, _short(len(chunk)))
        (
            base_offset, length, leader_epoch, magic, attributes, last_offset_delta,
            max_timestamp, producer_id, producer_epoch, base_sequence,
        ) = _HEADER.unpack_from(chunk, at)  # fmt: skip
        batch_end = position + _OVERHEAD + length
        if magic != 2 or length < HEADER_BYTES - _OVERHEAD or batch_end > end:
            raise CorruptLog(file.path, position, _misfit(length, magic, end - position))
        if last_offset_delta < 0:
            raise CorruptLog(file.path, position, f"a last offset delta of {last_offset_delta}")
        yield Header(
            position, batch_end, base_offset, base_offset + last_offset_delta, leader_epoch,
            attributes, max_timestamp, producer_id, producer_epoch, base_sequence,
        )  # fmt: skip
        position = batch_end


def whole_batches(
    file: File, position: int, end: int, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[tuple[bytes, BatchHeader, int]]:
    """The batches in bytes ``position`` to ``end``: a buffer, the header (whose ``position`` is in
    the buffer), and the batch's position in the file.

    Length, magic, CRC and the order of offsets are checked. Raises CorruptLog at the first damage.
    """
    last_offset = -1
    while position < end:
        chunk = file.read(position, min(chunk_bytes, end - position))
        first = _batch_bytes(file, chunk, position, end)
        if first > len(chunk):
            chunk = file.read(position, first)
        at = 0
        while True:
            header = _checked_header(file, chunk, at, position + at)
            if header.base_offset <= last_offset:
                raise CorruptLog(
                    file.path,
                    position + at,
                    f"base offset {header.base_offset} after last offset {last_offset}",
                )
            last_offset = header.last_offset
            yield chunk, header, position + at
            at = header.end
            left = len(chunk) - at
            if left < HEADER_BYTES or left < _LENGTH_AND_MAGIC.unpack_from(chunk, at)[0] + 12:
                break
        position += at


def _batch_bytes(file: File, chunk: bytes, position: int, end: int) -> int:
    """Size of the batch that begins ``chunk``; CorruptLog when the file cannot hold it."""
    if len(chunk) < HEADER_BYTES:
        raise CorruptLog(file.path, position, _short(len(chunk)))
    length, magic = _LENGTH_AND_MAGIC.unpack_from(chunk)
    size: int = length + _OVERHEAD
    if magic != 2 or length < HEADER_BYTES - _OVERHEAD or size > end - position:
        raise CorruptLog(file.path, position, _misfit(length, magic, end - position))
    return size


def _checked_header(file: File, chunk: bytes, at: int, position: int) -> BatchHeader:
    try:
        header = read_header(chunk, at)
        validate_batch(chunk, header)
    except CorruptRecords as error:
        raise CorruptLog(file.path, position, error.message) from None
    return header


def holds_old_message(file: File, position: int, end: int) -> bool:
    """Whether a whole, intact message of magic 0 or 1 begins at ``position``.

    Such a log is Kafka's of before 0.11: no torn tail, and never to be cut.
    """
    start = file.read(position, min(_OLD_HEADER_BYTES, end - position))
    if len(start) < _OLD_HEADER_BYTES:
        return False
    length, magic = _LENGTH_AND_MAGIC.unpack_from(start)
    if magic not in (0, 1) or not _OLD_HEADER_BYTES <= length + _OVERHEAD <= end - position:
        return False
    message = file.read(position, length + _OVERHEAD)
    checksum: int = _OLD_CRC.unpack_from(message)[0]
    return crc32(memoryview(message)[16:]) == checksum


def holds_whole_batch(file: File, position: int, end: int) -> bool:
    """Whether an intact batch begins anywhere in the first mebibyte behind ``position``.

    Then what is damaged there is no torn tail: something was written, and whole, after it.
    """
    window = file.read(position, min(CHUNK_BYTES, end - position))
    found = window.find(b"\x02", _MAGIC_POSITION + 1)
    while found >= 0:
        at = found - _MAGIC_POSITION
        if len(window) - at >= HEADER_BYTES:
            size = _LENGTH_AND_MAGIC.unpack_from(window, at)[0] + _OVERHEAD
            if HEADER_BYTES <= size <= end - position - at:
                batch = file.read(position + at, size)
                with suppress(CorruptRecords):
                    validate_batch(batch, read_header(batch))
                    return True
        found = window.find(b"\x02", found + 1)
    return False


def _short(count: int) -> str:
    return f"{count} bytes are left, and a batch header takes {HEADER_BYTES}"


def _misfit(length: int, magic: int, left: int) -> str:
    if length == 0 and magic == 0:
        return "zeros where a batch is due"
    if magic != 2:
        return f"magic {magic} where magic 2 is due"
    return f"a batch claims {length} bytes, and {left - _OVERHEAD} are left"
