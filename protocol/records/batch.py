"""Record batches of magic 2: reads headers and records, encodes batches, and changes fields of
stored batches.

The CRC-32C covers all bytes after it, from the attributes to the end. The fields before the CRC can
be changed without a new CRC: base offset, batch length, leader epoch and magic.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from protocol.buffer import Buffer
from protocol.errors import INVALID_RECORD, UNSUPPORTED_COMPRESSION_TYPE
from protocol.records.compression import NAMES, compress, decompress
from protocol.records.corrupt import CorruptRecords
from protocol.records.crc import crc32c
from protocol.records.section import (
    NO_TIMESTAMP,
    Record,
    check_section,
    decode_section,
    encode_section,
)
from protocol.slotted import slotted

HEADER_BYTES = 61
MAGIC = 2
CREATE_TIME = 0
LOG_APPEND_TIME = 1
ABORT = 0
COMMIT = 1
DECOMPRESSED_BYTES_MAX = 100 * 1024 * 1024

OVERHEAD = 12
"""The size in bytes of base offset and batch length. The batch length does not include these bytes.
"""
_HEADER = struct.Struct(">qiibIhiqqqhii")
BEFORE_CRC = struct.Struct(">qiibI")
"""Base offset, batch length, leader epoch, magic, and the CRC of the bytes after it."""
_MAGIC_POSITION = 16
_CRC_POSITION = 17
_CHECKED_POSITION = 21
_LOW_ATTRIBUTES_POSITION = 22
"""The position of the low byte of the attributes. No bits of the high byte are in use."""
_CHECKED = struct.Struct(">hiqqqhii")
_EPOCH = struct.Struct(">i")
_OFFSET = struct.Struct(">q")
_ATTRIBUTES = struct.Struct(">h")
_CRC = struct.Struct(">I")
_MAX_TIMESTAMP_POSITION = 35

CODEC_BITS = 0x07
_OFFSET_MAX = (1 << 63) - 1
LOG_APPEND_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
_DELETE_HORIZON_BIT = 0x40
LEADER_EPOCH_MAX = (1 << 31) - 1
PRODUCER_EPOCH_MAX = (1 << 15) - 1
"""The maximum producer epoch. Clients never get it; only markers that fence a producer use it."""


@slotted
class BatchHeader:
    """The 61 bytes before the records of a batch. ``position`` is the start of the batch in its
    buffer."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    position: int = 0

    @property
    def compression(self) -> int:
        """The compression codec, 0 to 7. The values 5 to 7 are undefined."""
        return self.attributes & CODEC_BITS

    @property
    def timestamp_type(self) -> int:
        return LOG_APPEND_TIME if self.attributes & LOG_APPEND_BIT else CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """True for a control batch, such as a transaction marker. Consumers never see its
        records."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """The wall time in ms after which tombstones and markers in a cleaned batch may be removed;
        None if it is not set. This time is stored in the batch's base timestamp."""
        return self.base_timestamp if self.attributes & _DELETE_HORIZON_BIT else None

    @property
    def last_offset(self) -> int:
        """The offset of the last record that the batch had when it was first written."""
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record, an int32 that wraps to 0; -1 if the batch has no
        sequence numbers."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def size_bytes(self) -> int:
        """The size of the whole batch in bytes."""
        return self.batch_length + OVERHEAD

    @property
    def end(self) -> int:
        """The position after the batch in its buffer."""
        return self.position + self.batch_length + OVERHEAD


class BatchForm(NamedTuple):
    """The format in which a log writes the batches that it creates itself."""

    compression: int = 0
    compression_level: int | None = None
    """The compression level; None means the codec's default."""
    attributes: int = 0
    """The attributes of every batch, without the bits of the codec."""


PLAIN_FORM = BatchForm()


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Reads the header of the batch at ``position``, without checking its CRC.

    Raises CorruptRecords if the batch is not of magic 2, is shorter than a header or longer than
    the buffer, or has a negative count or last offset delta.
    """
    size = len(buffer) - position
    if size < HEADER_BYTES:
        raise CorruptRecords(
            f"The batch is truncated: it has {size} bytes, but a batch header has {HEADER_BYTES}."
        )
    header = BatchHeader(*_HEADER.unpack_from(buffer, position))
    header.position = position
    if header.magic != MAGIC:
        raise CorruptRecords(f"The batch has magic {header.magic}, expected 2.")
    if not HEADER_BYTES <= header.batch_length + OVERHEAD <= size:
        raise CorruptRecords(
            f"The batch at offset {header.base_offset} has a length of"
            f" {header.batch_length} bytes, but {size - OVERHEAD} are left."
        )
    if header.record_count < 0 or header.last_offset_delta < 0:
        raise CorruptRecords(
            f"The batch at offset {header.base_offset} has {header.record_count}"
            f" records and last offset delta {header.last_offset_delta}: both must be at least 0.",
            INVALID_RECORD,
        )
    if not 0 <= header.base_offset <= _OFFSET_MAX - header.last_offset_delta:
        raise CorruptRecords(
            f"The batch has base offset {header.base_offset}, which is out of range.",
            INVALID_RECORD,
        )
    return header


def is_transactional(data: Buffer | None) -> bool:
    """Returns True if the records begin with a transactional batch. The records are not checked."""
    return (
        data is not None
        and len(data) > _LOW_ATTRIBUTES_POSITION
        and bool(data[_LOW_ATTRIBUTES_POSITION] & TRANSACTIONAL_BIT)
        and data[_MAGIC_POSITION] == MAGIC
    )


def iter_batches(buffer: Buffer) -> Iterator[tuple[BatchHeader, int]]:
    """Yields the header and the position of each batch in ``buffer``. Raises CorruptRecords if a
    batch is incomplete.

    For the content of a Fetch response, which may have old formats and an incomplete end, use
    `stored.iter_stored`.
    """
    position = 0
    size = len(buffer)
    while position < size:
        header = read_header(buffer, position)
        yield header, position
        position = header.end


def section_of(buffer: Buffer, header: BatchHeader, limit: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    view = memoryview(buffer)[header.position + HEADER_BYTES : header.end]
    return decompress(header.compression, view, limit)


def records_of(
    buffer: Buffer,
    header: BatchHeader,
    limit: int = DECOMPRESSED_BYTES_MAX,
    *,
    stored_timestamps: bool = False,
) -> list[Record]:
    """Returns the records of a batch. Lengths, counts and offset deltas are checked, but not the
    CRC.

    With log append time every record gets the timestamp of the batch, unless ``stored_timestamps``
    requests the timestamps that the producer wrote.
    """
    records = decode_section(
        section_of(buffer, header, limit),
        header.record_count,
        header.base_offset,
        header.base_timestamp,
        header.last_offset_delta,
    )
    if header.attributes & LOG_APPEND_BIT and not stored_timestamps:
        time = header.max_timestamp
        return [record._replace(timestamp=time) for record in records]
    return records


def validate_batch(
    buffer: Buffer,
    header: BatchHeader,
    *,
    deep: bool = False,
    limit: int = DECOMPRESSED_BYTES_MAX,
) -> None:
    """Checks the CRC and the codec of a batch. Raises CorruptRecords.

    ``deep`` also checks the record count and the records. Use it only for a batch from a producer.
    The cleaner may have removed records from a batch in a log: check such records with
    ``records_of``.
    """
    end = header.position + header.batch_length + OVERHEAD
    actual = crc32c(memoryview(buffer)[header.position + _CHECKED_POSITION : end])
    if actual != header.crc:
        raise CorruptRecords(
            f"The batch at offset {header.base_offset} has CRC 0x{header.crc:08x}, but"
            f" its bytes have 0x{actual:08x}."
        )
    if header.attributes & CODEC_BITS >= len(NAMES):
        raise CorruptRecords(
            f"Unknown compression type {header.compression}.", UNSUPPORTED_COMPRESSION_TYPE
        )
    if deep:
        if header.record_count < 1 or header.last_offset_delta != header.record_count - 1:
            raise CorruptRecords(
                f"The batch of {header.record_count} records has last offset delta"
                f" {header.last_offset_delta}: the count must be {header.last_offset_delta + 1}.",
                INVALID_RECORD,
            )
        check_section(section_of(buffer, header, limit), header.record_count)


def encode_batch(
    records: Sequence[Record],
    *,
    base_offset: int | None = None,
    last_offset: int | None = None,
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
    compression: int = 0,
    compression_level: int | None = None,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    timestamp_type: int = CREATE_TIME,
    is_transactional: bool = False,
    is_control: bool = False,
    delete_horizon_ms: int | None = None,
) -> bytes:
    """Encodes ``records``, whose offsets must ascend, as one batch.

    By default the base offset and base timestamp are those of the first record, and the last offset
    is that of the last record. The cleaner passes the values of the batch from which it removes
    records. With LOG_APPEND_TIME ``max_timestamp`` is the time of the append.
    """
    if base_offset is None:
        base_offset = records[0].offset
    if last_offset is None:
        last_offset = records[-1].offset
    if delete_horizon_ms is not None:
        base_timestamp = delete_horizon_ms
    elif base_timestamp is None:
        base_timestamp = records[0].timestamp if records else NO_TIMESTAMP
    if max_timestamp is None:
        max_timestamp = max((record.timestamp for record in records), default=NO_TIMESTAMP)
    section, count = encode_section(records, base_offset, base_timestamp)
    return assemble_batch(
        section,
        count,
        base_offset,
        base_timestamp,
        max_timestamp,
        leader_epoch=leader_epoch,
        compression=compression,
        compression_level=compression_level,
        attributes=(
            (LOG_APPEND_BIT if timestamp_type == LOG_APPEND_TIME else 0)
            | (TRANSACTIONAL_BIT if is_transactional else 0)
            | (CONTROL_BIT if is_control else 0)
            | (_DELETE_HORIZON_BIT if delete_horizon_ms is not None else 0)
        ),
        last_offset_delta=last_offset - base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )


def assemble_batch(
    section: Buffer,
    count: int,
    base_offset: int,
    base_timestamp: int,
    max_timestamp: int,
    *,
    leader_epoch: int = 0,
    compression: int = 0,
    compression_level: int | None = None,
    attributes: int = 0,
    last_offset_delta: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytes:
    """Encodes a batch from ``section``, the uncompressed records section of ``count`` records.
    ``attributes`` do not include the codec.

    Coordinators use this function for their batches, because it needs only one pack, one checksum
    and one join.
    """
    if compression:
        section = compress(compression, section, level=compression_level)
    checked = _CHECKED.pack(
        attributes | compression,
        count - 1 if last_offset_delta is None else last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    body = checked + section
    return (
        BEFORE_CRC.pack(
            base_offset,
            len(body) + _CHECKED_POSITION - OVERHEAD,
            leader_epoch,
            MAGIC,
            crc32c(body),
        )
        + body
    )


def patch_offset_and_epoch(
    buffer: bytearray, position: int, base_offset: int, leader_epoch: int
) -> None:
    """Sets base offset and leader epoch of the batch at ``position``. The CRC does not cover these
    fields."""
    _OFFSET.pack_into(buffer, position, base_offset)
    _EPOCH.pack_into(buffer, position + OVERHEAD, leader_epoch)


def patch_max_timestamp(
    buffer: bytearray, header: BatchHeader, max_timestamp: int, timestamp_type: int
) -> None:
    """Sets the largest timestamp and the timestamp type of the batch of ``header``, and updates the
    CRC.

    With LOG_APPEND_TIME ``max_timestamp`` is the time of the append and applies to every record.
    """
    header.attributes &= ~LOG_APPEND_BIT
    if timestamp_type == LOG_APPEND_TIME:
        header.attributes |= LOG_APPEND_BIT
    header.max_timestamp = max_timestamp
    _ATTRIBUTES.pack_into(buffer, header.position + _CHECKED_POSITION, header.attributes)
    _OFFSET.pack_into(buffer, header.position + _MAX_TIMESTAMP_POSITION, max_timestamp)
    with memoryview(buffer) as view:
        header.crc = crc32c(view[header.position + _CHECKED_POSITION : header.end])
    _CRC.pack_into(buffer, header.position + _CRC_POSITION, header.crc)
