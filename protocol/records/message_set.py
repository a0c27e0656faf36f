"""Message sets of magic 0 and 1, for clients older than Kafka 0.11.

A set is a sequence of messages. A message has an offset, a size, the CRC-32 of the bytes after it,
magic, attributes, a timestamp (magic 1), and a key and a value with int32 lengths (-1: null). A
compressed set is one wrapper message. Its value is a set of plain messages, and its offset is that
of the last plain message. Inner offsets are absolute in magic 0. In magic 1 they are relative to
the first inner offset, so that only the wrapper changes when the log assigns offsets.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator, Sequence
from dataclasses import field

from protocol.buffer import Buffer
from protocol.errors import INVALID_RECORD
from protocol.records.batch import CREATE_TIME, DECOMPRESSED_BYTES_MAX, LOG_APPEND_TIME
from protocol.records.budget import ELEMENTS_PER_MESSAGE, Budget
from protocol.records.compression import Unpacked, compress, unpack
from protocol.records.corrupt import CorruptRecords
from protocol.records.crc import crc32
from protocol.records.section import NO_TIMESTAMP, Record
from protocol.slotted import slotted

OVERHEAD = 12  # offset and size, which the size does not include

_ENTRY = struct.Struct(">qiIbb")
_OFFSET_AND_SIZE = struct.Struct(">qi")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_CHECKED_POSITION = 16
_SMALLEST = (14, 22)  # size of a message of this magic with null key and null value
_CODEC_BITS = 0x07
_LOG_APPEND_BIT = 0x08


@slotted
class Message:
    """One entry of a message set, whose CRC was checked. It is a wrapper if ``compression`` is not
    0. ``size_bytes`` is the size of the whole entry, including offset and size."""

    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    size_bytes: int

    @property
    def compression(self) -> int:
        """The codec of the compressed message set that ``value`` contains; 0 if this message is not
        a wrapper."""
        return self.attributes & _CODEC_BITS

    @property
    def timestamp_type(self) -> int:
        """CREATE_TIME or LOG_APPEND_TIME. It is CREATE_TIME for magic 0, which has no
        timestamps."""
        if self.magic == 1 and self.attributes & _LOG_APPEND_BIT:
            return LOG_APPEND_TIME
        return CREATE_TIME


@slotted
class MessageSet:
    """The content of a message set, with decompressed wrappers.

    ``compression`` is the codec of the last wrapper, 0 without a wrapper. ``timestamp_type`` is the
    timestamp type of the last entry. ``largest_entry_bytes`` is the size that the largest entry had
    before decompression.
    """

    records: list[Record]
    magic: int = 0
    compression: int = 0
    timestamp_type: int = CREATE_TIME
    largest_entry_bytes: int = 0
    entries: list[tuple[Message, list[Record]]] = field(default_factory=list)
    """The entries of the set, each with its records. The field ``records`` has the records of all
    entries in one list."""


def iter_messages(buffer: Buffer | mmap.mmap, partial: bool = False) -> Iterator[Message]:
    """Yields the entries of a message set and checks their CRC-32. Wrappers are not decompressed.

    With ``partial``, an incomplete entry at the end, as in a Fetch response, is omitted. Without
    ``partial``, such an entry raises CorruptRecords.
    """
    data = buffer if isinstance(buffer, mmap.mmap) else bytes(buffer)
    position = 0
    left = len(data)
    while left:
        if left < OVERHEAD:
            if partial:
                return
            raise CorruptRecords(f"The last {left} bytes of the message set are not a message.")
        offset, size = _OFFSET_AND_SIZE.unpack_from(data, position)
        if size < _SMALLEST[0]:
            raise CorruptRecords(f"The message at offset {offset} has a size of only {size} bytes.")
        if size > left - OVERHEAD:
            if partial:
                return
            raise CorruptRecords(
                f"The message at offset {offset} has a size of {size} bytes, but"
                f" {left - OVERHEAD} are left."
            )
        end = position + OVERHEAD + size
        yield _message(data, position, end)
        left = len(data) - end
        position = end


def _message(data: Unpacked, start: int, end: int) -> Message:
    """Decodes the entry from ``start`` to ``end``. The caller must check that it has at least 26
    bytes."""
    offset, size, crc, magic, attributes = _ENTRY.unpack_from(data, start)
    if magic not in (0, 1):
        raise CorruptRecords(f"The message has magic {magic}, but its message set can have 0 or 1.")
    if size < _SMALLEST[magic]:
        raise CorruptRecords(f"The message at offset {offset} has a size of only {size} bytes.")
    actual = crc32(memoryview(data)[start + _CHECKED_POSITION : end])
    if actual != crc:
        raise CorruptRecords(
            f"The message at offset {offset} has CRC 0x{crc:08x}, but its bytes have"
            f" 0x{actual:08x}."
        )
    position = start + _ENTRY.size
    timestamp = NO_TIMESTAMP
    if magic == 1:
        (timestamp,) = _INT64.unpack_from(data, position)
        position += 8
    key, position = _bytes(data, position, end)
    value, position = _bytes(data, position, end)
    if position != end:
        raise CorruptRecords(f"The message at offset {offset} does not fit its size field.")
    return Message(offset, magic, attributes, timestamp, key, value, end - start)


def _bytes(data: Unpacked, position: int, end: int) -> tuple[bytes | None, int]:
    if end - position < 4:
        raise CorruptRecords("A message is truncated in the length of its key or value.")
    (length,) = _INT32.unpack_from(data, position)
    position += 4
    if length == -1:
        return None, position
    if length < 0 or length > end - position:
        raise CorruptRecords(
            f"A key or value has a length of {length} bytes, but its message has"
            f" {end - position} left."
        )
    return data[position : position + length], position + length


def unwrap(
    message: Message, limit: int = DECOMPRESSED_BYTES_MAX, budget: Budget | None = None
) -> list[Record]:
    """Returns the records of one entry: one record for a plain message, and one for each inner
    message of a wrapper. A wrapper is decompressed to at most ``limit`` bytes.

    Offsets in a wrapper must ascend, or all be 0: early clients of magic 1 write zeros, and Kafka
    accepts them. Raises OverBudget if the records exceed ``budget``.
    """
    if budget is not None:
        budget.take(ELEMENTS_PER_MESSAGE)
    if not message.compression:
        return [
            Record(message.offset, message.timestamp, message.key, message.value),
        ]
    if message.value is None:
        raise CorruptRecords(
            f"The wrapper message at offset {message.offset} must have a value.", INVALID_RECORD
        )
    opened = unpack if budget is None else budget.open
    inner = opened(message.compression, message.value, limit, message.magic)
    records: list[Record] = []
    for entry in iter_messages(inner):
        if budget is not None:
            budget.take(ELEMENTS_PER_MESSAGE)
        if entry.magic != message.magic:
            raise CorruptRecords(
                f"A message of magic {entry.magic} must not be in a wrapper of magic"
                f" {message.magic}.",
                INVALID_RECORD,
            )
        if entry.compression:
            raise CorruptRecords(
                "A compressed message must not contain a compressed message.", INVALID_RECORD
            )
        records.append(Record(entry.offset, entry.timestamp, entry.key, entry.value))
    if not records:
        raise CorruptRecords(
            f"The wrapper message at offset {message.offset} must not be empty.", INVALID_RECORD
        )
    _check_inner_offsets(records)
    shift = message.offset - records[-1].offset if message.magic == 1 else 0
    append_time = message.timestamp_type == LOG_APPEND_TIME
    if shift or append_time:
        records = [
            record._replace(
                offset=record.offset + shift,
                timestamp=message.timestamp if append_time else record.timestamp,
            )
            for record in records
        ]
    return records


def _check_inner_offsets(records: Sequence[Record]) -> None:
    previous = records[0].offset
    if previous < 0:
        raise CorruptRecords(
            f"A message in a wrapper message has offset {previous}, below 0.", INVALID_RECORD
        )
    if previous == 0 and all(record.offset == 0 for record in records):
        return
    for record in records[1:]:
        if record.offset <= previous:
            raise CorruptRecords(
                f"In a wrapper message, offset {record.offset} follows offset {previous}:"
                " offsets must ascend.",
                INVALID_RECORD,
            )
        previous = record.offset


def read_set(
    buffer: Buffer,
    limit: int = DECOMPRESSED_BYTES_MAX,
    *,
    partial: bool = False,
    budget: Budget | None = None,
) -> MessageSet:
    """Decodes a complete message set. Raises CorruptRecords if its entries have different magics.
    ``limit`` bounds the decompressed bytes of all its wrappers together. Raises OverBudget if the
    records exceed ``budget``."""
    result = MessageSet([])
    room = limit
    for index, message in enumerate(iter_messages(buffer, partial)):
        if index == 0:
            result.magic = message.magic
        elif message.magic != result.magic:
            raise CorruptRecords(
                f"A message of magic {message.magic} must not be in a message set that starts"
                f" with magic {result.magic}.",
                INVALID_RECORD,
            )
        records = unwrap(message, room, budget)
        if message.compression:
            result.compression = message.compression
            room -= sum(26 + len(r.key or b"") + len(r.value or b"") for r in records)
        result.timestamp_type = message.timestamp_type
        result.largest_entry_bytes = max(result.largest_entry_bytes, message.size_bytes)
        result.records += records
        result.entries.append((message, records))
    return result


def decode(
    buffer: Buffer, limit: int = DECOMPRESSED_BYTES_MAX, *, partial: bool = False
) -> list[Record]:
    """Returns the records of a message set, decoded by ``read_set``."""
    return read_set(buffer, limit, partial=partial).records


def encode(
    records: Sequence[Record],
    magic: int,
    compression: int = 0,
    *,
    compression_level: int | None = None,
    timestamp_type: int = CREATE_TIME,
    append_time: int | None = None,
) -> bytes:
    """Encodes records, whose offsets must ascend, as plain messages or as one wrapper message.

    With LOG_APPEND_TIME ``append_time`` is the timestamp of the wrapper, by default the largest
    timestamp of the records. Headers are omitted, because magic 0 and 1 have none.
    """
    flag = _LOG_APPEND_BIT if magic == 1 and timestamp_type == LOG_APPEND_TIME else 0
    if not compression:
        return b"".join(_encode_message(r, magic, flag) for r in records)
    base = records[0].offset if magic == 1 else 0
    inner = b"".join(
        _encode_message(r._replace(offset=r.offset - base), magic, flag) for r in records
    )
    if append_time is None:
        append_time = max(record.timestamp for record in records)
    value = compress(compression, inner, magic, compression_level)
    wrapper = Record(records[-1].offset, append_time, None, value)
    return _encode_message(wrapper, magic, compression | flag)


def with_offsets(data: Buffer, counts: Sequence[int]) -> bytearray:
    """Returns the message set with new offsets, which begin at 0. ``counts`` has the number of
    records of each message."""
    out = bytearray(data)
    position = offset = 0
    for count in counts:
        offset += count
        size = _OFFSET_AND_SIZE.unpack_from(out, position)[1]
        _INT64.pack_into(out, position, offset - 1)
        position += OVERHEAD + size
    return out


def placed(data: Buffer, base_offset: int, append_time: int | None = None) -> bytearray:
    """Returns a message set whose offsets are higher by ``base_offset``. The caller has already
    checked the set; its offsets begin at 0.

    A wrapper of magic 0 is encoded again, because its inner offsets are absolute. With
    ``append_time``, messages of magic 1 get this timestamp and the type LOG_APPEND_TIME. Raises
    CorruptRecords.
    """
    view = memoryview(data)
    out = bytearray()
    position = 0
    while position < len(view):
        offset, size, _, magic, attributes = _ENTRY.unpack_from(view, position)
        end = position + OVERHEAD + size
        if magic == 0 and attributes & _CODEC_BITS:
            (message,) = iter_messages(view[position:end])
            records = unwrap(message)
            first = base_offset + offset - len(records) + 1
            moved = [record._replace(offset=first + i) for i, record in enumerate(records)]
            out += encode(moved, 0, message.compression)
        else:
            at = len(out)
            out += view[position:end]
            _INT64.pack_into(out, at, base_offset + offset)
            if magic and append_time is not None:
                _stamp(out, at, attributes, append_time)
        position = end
    return out


def _stamp(out: bytearray, at: int, attributes: int, append_time: int) -> None:
    """Sets the append time in the last message of ``out``, which has magic 1 and begins at
    ``at``."""
    out[at + _CHECKED_POSITION + 1] = (attributes | _LOG_APPEND_BIT) & 0xFF
    _INT64.pack_into(out, at + _ENTRY.size, append_time)
    with memoryview(out) as view:
        checksum = crc32(view[at + _CHECKED_POSITION :])
    out[at + OVERHEAD : at + _CHECKED_POSITION] = checksum.to_bytes(4, "big")


def _encode_message(record: Record, magic: int, attributes: int) -> bytes:
    parts = [bytes((magic, attributes))]
    if magic == 1:
        parts.append(_INT64.pack(record.timestamp))
    for part in (record.key, record.value):
        if part is None:
            parts.append(b"\xff\xff\xff\xff")
        else:
            parts += (_INT32.pack(len(part)), part)
    body = b"".join(parts)
    return b"".join(
        (
            _OFFSET_AND_SIZE.pack(record.offset, len(body) + 4),
            crc32(body).to_bytes(4, "big"),
            body,
        )
    )
