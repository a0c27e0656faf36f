"""Reads the entries of a segment's file in bounded chunks.

An entry is a batch of magic 2, or a message of magic 0 or 1, which may be a wrapper of compressed
messages. One segment may contain entries of all these kinds; `protocol/records/stored.py` describes
each entry by one header. `headers` reads only the headers and skips the records. `whole_batches`
reads and checks all bytes. If the length in a header exceeds the file, no memory is allocated for
this length.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import NamedTuple

from log.errors import CorruptLog
from log.files.cached_file import CachedFile
from log.files.filesystem import File
from protocol.records.batch import (
    CODEC_BITS,
    HEADER_BYTES,
    BatchHeader,
    read_header,
    validate_batch,
)
from protocol.records.compression import NAMES
from protocol.records.corrupt import CorruptRecords
from protocol.records.crc import crc32c
from protocol.records.section import NO_TIMESTAMP
from protocol.records.stored import (
    ATTRIBUTES,
    MAGIC_POSITION,
    SMALLEST_BYTES,
    read_stored,
    stored_records,
    validate_stored,
)

HEADER_CHUNK_BYTES = 16 * 1024
CHUNK_BYTES = 1024 * 1024

_OVERHEAD = 12
_CHECKED_POSITION = 21
"""The position in a batch at which the bytes that the CRC covers begin."""
_HEADER = struct.Struct(">qiib4xhi8xqqhi")
_WHOLE = struct.Struct(">qiibIhi8xqq6xi")
_LENGTH_AND_MAGIC = struct.Struct(">8xi4xb")
_OLD = struct.Struct(">qi4xbB")
_OLD_TIMESTAMP = struct.Struct(">18xq")
_LEAST_READ = MAGIC_POSITION + 1
_ENTRY_BEGINS = re.compile(
    rb"(?=.{16}\x02|\x00\x00.{6}\x00...(?!\x00{4})....[\x00\x01][\x00-\x0f])", re.DOTALL
)
"""Matches a position at which an entry may begin: a batch, or a message of less than 16 MiB with an
offset below 2^48 and a CRC other than 0."""
_OFFSET_MAX = (1 << 63) - 1
_ZEROS = "the file has zeros instead of a batch"
_TRIED_BYTES_MAX = 64 * CHUNK_BYTES


class Header(NamedTuple):
    """The header fields of a batch that lookups use. ``position`` and ``end`` are byte positions in
    the file."""

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
    magic: int = 2


class Checked(NamedTuple):
    """An intact batch, with the fields that recovery uses. ``position`` is the position of the
    batch in the file, in bytes."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int
    record_count: int
    leader_epoch: int
    max_timestamp: int
    producer_id: int


def headers(file: File | CachedFile, position: int, end: int) -> Iterator[Header]:
    """Yields the headers of the batches in bytes ``position`` to ``end`` of a segment. A batch must
    begin at ``position``. CRCs are not checked. Raises CorruptLog for bytes that can't be a batch.
    """
    chunk: bytes | bytearray = b""
    chunk_position = position
    while position < end:
        at = position - chunk_position
        if at + HEADER_BYTES > len(chunk):
            chunk = file.read(position, min(HEADER_CHUNK_BYTES, end - position))
            chunk_position, at = position, 0
            if len(chunk) < HEADER_BYTES:
                old = _old_header(file, chunk, at, position, end)
                yield old
                position = old.end
                continue
        (
            base_offset, length, leader_epoch, magic, attributes, last_offset_delta,
            max_timestamp, producer_id, producer_epoch, base_sequence,
        ) = _HEADER.unpack_from(chunk, at)  # fmt: skip
        if magic != 2:
            old = _old_header(file, chunk, at, position, end)
            yield old
            position = old.end
            continue
        batch_end = position + _OVERHEAD + length
        if length < HEADER_BYTES - _OVERHEAD or batch_end > end:
            raise CorruptLog(file.path, position, _misfit(length, magic, end - position))
        if last_offset_delta < 0:
            why = f"the last offset delta is {last_offset_delta}, below 0"
            raise CorruptLog(file.path, position, why)
        yield Header(
            position, batch_end, base_offset, base_offset + last_offset_delta, leader_epoch,
            attributes, max_timestamp, producer_id, producer_epoch, base_sequence,
        )  # fmt: skip
        position = batch_end


def _old_header(
    file: File | CachedFile, chunk: bytes | bytearray, at: int, position: int, end: int
) -> Header:
    """Returns the header of the message of magic 0 or 1 at ``at`` in ``chunk``. Raises CorruptLog
    for bytes that can't be such a message."""
    left = len(chunk) - at
    if left < _OLD.size or chunk[at + MAGIC_POSITION] == 2:
        raise CorruptLog(file.path, position, _short(left))
    offset, length, magic, attributes = _OLD.unpack_from(chunk, at)
    if not _may_be_entry(length, magic, end - position) or left < SMALLEST_BYTES[magic]:
        raise CorruptLog(file.path, position, _misfit(length, magic, end - position))
    if offset < 0:
        raise CorruptLog(file.path, position, f"the message has offset {offset}, below 0")
    timestamp = _OLD_TIMESTAMP.unpack_from(chunk, at)[0] if magic else NO_TIMESTAMP
    return Header(
        position, position + _OVERHEAD + length, offset, offset, -1, attributes & ATTRIBUTES[magic],
        timestamp, -1, -1, -1, magic,
    )  # fmt: skip


def first_offset(file: File, batch: Header) -> int:
    """Returns the offset of the first record of a batch. A wrapper of magic 0 or 1 is decompressed.
    Raises CorruptLog."""
    if batch.magic == 2 or not batch.attributes:
        return batch.base_offset
    data = file.read(batch.position, batch.end - batch.position)
    try:
        return stored_records(data, read_stored(data))[0].offset
    except CorruptRecords as error:
        raise CorruptLog(file.path, batch.position, error.message) from None


def whole_batches(
    file: File, position: int, end: int, chunk_bytes: int = CHUNK_BYTES, last_offset: int = -1
) -> Iterator[tuple[bytes, BatchHeader, int]]:
    """Yields the batches between the file positions ``position`` and ``end``: for each batch a
    buffer, the header, and the position of the batch in the file. The field ``position`` of the
    header is the position of the batch in the buffer.

    Checks the length, magic and CRC of each batch, and that offsets ascend. The first offset must
    be greater than ``last_offset``. Raises CorruptLog at the first damage.
    """
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
                    f"base offset {header.base_offset} follows offset {last_offset}:"
                    " offsets must ascend",
                )
            last_offset = header.last_offset
            yield chunk, header, position + at
            at = header.end
            left = len(chunk) - at
            if left < HEADER_BYTES or left < _LENGTH_AND_MAGIC.unpack_from(chunk, at)[0] + 12:
                break
        position += at


def checked_batches(
    file: File, position: int, end: int, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[Checked]:
    """Yields the same batches as `whole_batches`, in a third of the time if the batches are intact.

    If a chunk has a batch that is damaged, of magic 0 or 1, or longer than the chunk,
    `whole_batches` reads this chunk, and raises CorruptLog if a batch is damaged.
    """
    last_offset = -1
    while position < end:
        chunk = file.read(position, min(chunk_bytes, end - position))
        view = memoryview(chunk)
        at, last_batch_begins = 0, len(chunk) - HEADER_BYTES
        while at <= last_batch_begins:
            (
                base_offset, length, leader_epoch, magic, crc, attributes, last_offset_delta,
                max_timestamp, producer_id, record_count,
            ) = _WHOLE.unpack_from(chunk, at)  # fmt: skip
            size = length + _OVERHEAD
            if (
                magic != 2
                or not HEADER_BYTES <= size <= len(chunk) - at
                or base_offset <= last_offset
                or not 0 <= last_offset_delta <= _OFFSET_MAX - base_offset
                or record_count < 0
                or attributes & CODEC_BITS >= len(NAMES)
                or crc32c(view[at + _CHECKED_POSITION : at + size]) != crc
            ):
                break
            last_offset = base_offset + last_offset_delta
            yield Checked(
                position + at, size, base_offset, last_offset, record_count, leader_epoch,
                max_timestamp, producer_id,
            )  # fmt: skip
            at += size
        position += at
        if not at:
            slowly = _checked_slowly(file, position, end, chunk_bytes, last_offset)
            position, last_offset = yield from slowly


def _checked_slowly(
    file: File, position: int, end: int, chunk_bytes: int, last_offset: int
) -> Generator[Checked, None, tuple[int, int]]:
    """Reads the batches of one chunk with `whole_batches` and yields them, including the batch that
    crosses the end of the chunk. Returns the end position and the last offset of the last batch."""
    enough = position + chunk_bytes
    for _, header, at in whole_batches(file, position, end, chunk_bytes, last_offset):
        yield Checked(
            at, header.size_bytes, header.base_offset, header.last_offset, header.record_count,
            header.partition_leader_epoch, header.max_timestamp, header.producer_id,
        )  # fmt: skip
        position, last_offset = at + header.size_bytes, header.last_offset
        if position >= enough:
            break
    return position, last_offset


def _batch_bytes(file: File, chunk: bytes, position: int, end: int) -> int:
    """Returns the size of the entry at the beginning of ``chunk``. Raises CorruptLog if the file
    ends before the end of the entry."""
    if len(chunk) < _LEAST_READ:
        raise CorruptLog(file.path, position, _short(len(chunk)))
    length, magic = _LENGTH_AND_MAGIC.unpack_from(chunk)
    if magic == 2 and len(chunk) < HEADER_BYTES:
        raise CorruptLog(file.path, position, _short(len(chunk)))
    if not _may_be_entry(length, magic, end - position):
        raise CorruptLog(file.path, position, _misfit(length, magic, end - position))
    size: int = length + _OVERHEAD
    return size


def _may_be_entry(length: int, magic: int, left: int) -> bool:
    return 0 <= magic <= 2 and SMALLEST_BYTES[magic] <= length + _OVERHEAD <= left


def _checked_header(file: File, chunk: bytes, at: int, position: int) -> BatchHeader:
    try:
        if chunk[at + MAGIC_POSITION] == 2:
            header = read_header(chunk, at)
            validate_batch(chunk, header)
        else:
            header = read_stored(chunk, at)
            validate_stored(chunk, header)
    except CorruptRecords as error:
        reason = error.message if any(chunk[at : at + _LEAST_READ]) else _ZEROS
        raise CorruptLog(file.path, position, reason) from None
    return header


def holds_whole_batch(file: File, position: int, end: int) -> bool:
    """Returns whether an intact entry begins in the first mebibyte after ``position``.

    If so, the damage at ``position`` was not caused by an interrupted write, because a complete
    write followed.
    """
    window = file.read(position, min(CHUNK_BYTES, end - position))
    room = _TRIED_BYTES_MAX
    for found in _ENTRY_BEGINS.finditer(window, 1):
        at = found.start()
        length, magic = _LENGTH_AND_MAGIC.unpack_from(window, at)
        size = length + _OVERHEAD
        if size <= room and _may_be_entry(length, magic, end - position - at):
            entry = file.read(position + at, size)
            room -= size
            with suppress(CorruptRecords):
                validate_stored(entry, read_stored(entry))
                return True
    return False


def _short(count: int) -> str:
    return f"{count} bytes are left, but a batch header has {HEADER_BYTES}"


def _misfit(length: int, magic: int, left: int) -> str:
    if length == 0 and magic == 0:
        return _ZEROS
    if not 0 <= magic <= 2:
        return f"magic {magic}, expected 0, 1 or 2"
    return f"the batch has a length of {length} bytes, but {left - _OVERHEAD} are left"
