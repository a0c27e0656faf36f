"""Removes records from a batch. The remaining records keep their bytes, offsets and timestamps.

Base offset, last offset, producer and sequence of a batch never change, so that removed offsets
become gaps. The *delete horizon* is the wall time from which the batch's tombstones and markers may
be removed. As in Kafka since 3.1, the delete horizon is stored in place of the base timestamp, and
an attribute bit marks it.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import NamedTuple

from log.cleaner.clean_scan import (
    CODEC_BITS,
    DELETE_HORIZON_BIT,
    LOG_APPEND_BIT,
    Frame,
)
from log.errors import CorruptLog
from protocol.errors import INVALID_RECORD
from protocol.records.batch import (
    CONTROL_BIT,
    CREATE_TIME,
    LOG_APPEND_TIME,
    TRANSACTIONAL_BIT,
    assemble_batch,
)
from protocol.records.corrupt import CorruptRecords
from protocol.records.message_set import encode
from protocol.records.section import NO_TIMESTAMP, Record, wrap_int64
from protocol.records.stored import read_stored, stored_records, validate_stored
from protocol.records.varint import encode_varint, read_bits, read_varlong

_INT64_MIN = -(1 << 63)
_COPIED_BITS = LOG_APPEND_BIT | TRANSACTIONAL_BIT | CONTROL_BIT


class Cut(NamedTuple):
    """One record in the records section of a batch, at bytes ``start`` to ``end``, with only the
    fields that cleaning reads."""

    start: int
    body: int
    """The position of the record's attributes, which follow the record's length."""
    rest: int
    """The position of the record's offset delta, which is the field after the timestamp delta. All
    bytes from here on are copied unchanged."""
    end: int
    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    is_tombstone: bool


_new_tuple = tuple.__new__


def cut_records(section: bytes, count: int) -> list[Cut]:
    """Returns the ``count`` records of an uncompressed records section. Raises CorruptRecords
    unless the records fill the section."""
    cuts: list[Cut] = []
    position = 0
    size = len(section)
    try:
        for _ in range(count):
            start = position
            bits = section[position]
            position += 1
            if bits > 0x7F:
                bits, position = read_bits(section, start, 32)
            body = position
            end = position + (bits >> 1)
            bits = section[position + 1]
            position += 2
            if bits > 0x7F:
                timestamp_delta, position = read_varlong(section, position - 1)
            else:
                timestamp_delta = (bits >> 1) ^ -(bits & 1)
            rest = position
            bits = section[position]
            position += 1
            if bits > 0x7F:
                bits, position = read_bits(section, rest, 32)
            offset_delta = bits >> 1
            bits = section[position]
            position += 1
            if bits > 0x7F:
                bits, position = read_bits(section, position - 1, 32)
            if bits & 1:
                key = None
                stop = position
            else:
                stop = position + (bits >> 1)
                key = section[position:stop]
            if stop >= end:
                raise _misfit(len(cuts), count)
            cuts.append(
                _new_tuple(
                    Cut,
                    (
                        start, body, rest, end, timestamp_delta, offset_delta, key,
                        section[stop] == 1,
                    ),
                )
            )  # fmt: skip
            position = end
    except IndexError:
        raise _misfit(len(cuts), count) from None
    if position != size:
        raise _misfit(count, count)
    return cuts


def _misfit(index: int, count: int) -> CorruptRecords:
    return CorruptRecords(
        f"The length of record {index} of {count} does not fit its batch.", INVALID_RECORD
    )


def horizon_of(frame: Frame) -> int | None:
    """Returns the delete horizon, the wall time in ms from which tombstones and markers may be
    removed; None if it is not set."""
    return frame.base_timestamp if frame.attributes & DELETE_HORIZON_BIT else None


def thin_plain(frame: Frame, section: bytes, live: Container[int]) -> tuple[bytes, int]:
    """Returns a batch with only the records at the offsets ``live``, and the number of these
    records (at least 1). Raises CorruptRecords. This function is twice as fast as `thin`. The batch
    must have no delete horizon, and no live record may be a tombstone."""
    base_offset, count = frame.base_offset, frame.record_count
    parts: list[bytes] = []
    size = len(section)
    position = kept = index = 0
    since = -1
    latest = _INT64_MIN
    try:
        for index in range(count):  # noqa: B007 - named when a length misfits
            start = position
            bits = section[position]
            position += 1
            if bits > 0x7F:
                byte = section[position]
                if byte > 0x7F:
                    bits, position = read_bits(section, start, 32)
                else:
                    bits = bits & 0x7F | byte << 7
                    position += 1
            end = position + (bits >> 1)
            time = section[position + 1]
            position += 2
            if time > 0x7F:
                byte = section[position]
                if byte > 0x7F:
                    time, position = read_bits(section, position - 1, 64)
                else:
                    time = time & 0x7F | byte << 7
                    position += 1
            delta = section[position]
            if delta > 0x7F:
                byte = section[position + 1]
                if byte > 0x7F:
                    delta, position = read_bits(section, position, 32)
                else:
                    delta = delta & 0x7F | byte << 7
            if base_offset + (delta >> 1) in live:
                kept += 1
                time = (time >> 1) ^ -(time & 1)
                if time > latest:  # noqa: PLR1730 - max() costs a call
                    latest = time
                if since < 0:
                    since = start
            elif since >= 0:
                parts.append(section[since:start])
                since = -1
            position = end
    except IndexError:
        raise _misfit(index, count) from None
    if position != size or not kept:
        raise _misfit(count, count)
    if since >= 0:
        parts.append(section[since:])
    latest = wrap_int64(frame.base_timestamp + latest)
    return _assemble(frame, parts, kept, frame.base_timestamp, latest, False), kept


def thin(frame: Frame, section: bytes, kept: Sequence[Cut], new_horizon_ms: int | None) -> bytes:
    """Returns the batch with only the records in ``kept``, at least one. ``new_horizon_ms`` becomes
    the batch's delete horizon, which is stored in place of the base timestamp. If it is None, the
    base timestamp is unchanged."""
    base_timestamp = frame.base_timestamp
    if new_horizon_ms is None:
        parts = [section[cut.start : cut.end] for cut in kept]
    else:
        parts = []
        for cut in kept:
            delta = encode_varint(wrap_int64(base_timestamp + cut.timestamp_delta - new_horizon_ms))
            parts += (
                encode_varint(1 + len(delta) + cut.end - cut.rest),
                section[cut.body : cut.body + 1],
                delta,
                section[cut.rest : cut.end],
            )
    max_timestamp = max(wrap_int64(base_timestamp + cut.timestamp_delta) for cut in kept)
    if new_horizon_ms is not None:
        base_timestamp = new_horizon_ms
    sets_horizon = new_horizon_ms is not None
    return _assemble(frame, parts, len(kept), base_timestamp, max_timestamp, sets_horizon)


def _assemble(
    frame: Frame,
    parts: list[bytes],
    count: int,
    base_timestamp: int,
    max_timestamp: int,
    sets_horizon: bool,
) -> bytes:
    """Returns ``frame`` with its records replaced by the records ``parts``. ``max_timestamp`` is
    the largest timestamp of the new records, unless the batch has log append time."""
    attributes = frame.attributes & (_COPIED_BITS | DELETE_HORIZON_BIT)
    return assemble_batch(
        b"".join(parts),
        count,
        frame.base_offset,
        base_timestamp,
        frame.max_timestamp if attributes & LOG_APPEND_BIT else max_timestamp,
        leader_epoch=frame.leader_epoch,
        compression=frame.attributes & CODEC_BITS,
        attributes=attributes | (DELETE_HORIZON_BIT if sets_horizon else 0),
        last_offset_delta=frame.last_offset_delta,
        producer_id=frame.producer_id,
        producer_epoch=frame.producer_epoch,
        base_sequence=frame.base_sequence,
    )


def empty(frame: Frame) -> bytes:
    """Returns an empty batch that replaces the batch ``frame``. Its header keeps the producer, the
    sequence numbers and the offsets of ``frame``, so that readers of the log still find them. A
    batch without a producer also gets no timestamp, so that lookups by time do not find it."""
    return assemble_batch(
        b"",
        0,
        frame.base_offset,
        NO_TIMESTAMP,
        frame.max_timestamp if frame.producer_id >= 0 else NO_TIMESTAMP,
        leader_epoch=frame.leader_epoch,
        attributes=frame.attributes & _COPIED_BITS,
        last_offset_delta=frame.last_offset_delta,
        producer_id=frame.producer_id,
        producer_epoch=frame.producer_epoch,
        base_sequence=frame.base_sequence,
    )


def messages_of(frame: Frame, path: str) -> list[Record]:
    """Checks the checksum of a message of magic 0 or 1, and returns its records, decompressed.
    Raises CorruptLog."""
    entry = frame.chunk[frame.start : frame.stop]
    try:
        header = read_stored(entry)
        validate_stored(entry, header)
        return stored_records(entry, header)
    except CorruptRecords as error:
        raise CorruptLog(path, frame.position, error.message) from None


def message_with(frame: Frame, kept: Sequence[Record]) -> bytes:
    """Returns the wrapper ``frame`` with only the messages in ``kept``. ``kept`` must have at least
    one message."""
    stamped = bool(frame.attributes & LOG_APPEND_BIT)
    return encode(
        kept,
        frame.magic,
        frame.attributes & CODEC_BITS,
        timestamp_type=LOG_APPEND_TIME if stamped else CREATE_TIME,
        append_time=frame.max_timestamp if stamped else None,
    )


def memory_of(messages: Sequence[Record]) -> int:
    """Returns the total size in bytes of the messages' keys and values. It is an upper bound of the
    memory that the map of keys needs for these messages."""
    return sum(len(message.key or b"") + len(message.value or b"") for message in messages)
