"""The codec of the records of ``__share_group_state``.

A key is its record type (int16, 0 for ShareSnapshot or 1 for ShareUpdate), the group id, the topic
id and the partition. A value is a version (int16, 0) and the fields of `SnapshotValue` or
`UpdateValue`. A tombstone has a key of type 0. As in Kafka, records of other types are skipped and
counted. Values of other versions are an error.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any

from protocol import log_records
from protocol.errors import ProtocolError
from protocol.records.corrupt import CorruptStoredRecord
from protocol.records.section import Record, encode_record_body
from protocol.records.varint import encode_varint
from protocol.wire import varint
from share.persister.combining import are_ascending, combine, has_empty
from share.persister.values import UNKNOWN_COUNT, ShareStateRun, SnapshotValue, UpdateValue
from share.values import SharePartitionKey, StateBatch

SNAPSHOT = 0
UPDATE = 1
_VALUE_VERSION = 0

_PLACE = struct.Struct(">16si")
"""The topic id and the partition in a key."""
_SNAPSHOT_HEAD = struct.Struct(">hiiiqqq")
"""Version, snapshot epoch, state epoch, leader epoch, start offset, creation time and write time.
"""
_UPDATE_HEAD = struct.Struct(">hiiq")
"""Version, snapshot epoch, leader epoch and start offset."""
_BATCH = struct.Struct(">qqbhB")
"""A batch: first offset, last offset, delivery state, delivery count, and the number of tagged
fields, which is 0."""
_UNTAGGED = struct.Struct(">qqbhx")
"""The layout of a batch without tagged fields: its four fields, and a skipped byte at `_TAGS_AT`
with the number of tagged fields."""
_TAGS_AT = _UNTAGGED.size - 1
_COUNT_TAG = b"\x01\x00\x04"
"""One tagged field with the tag 0 and 4 bytes: the delivery complete count."""
_BATCHES_PER_PIECE = 5_000
"""The number of batches that are decoded without a pause. This takes 2 ms."""
_RECORD_BYTES_AT_MOST = 120
"""An upper bound of the size in bytes of a record, not counting the group id and the batches in the
record."""


class CorruptShareRecord(CorruptStoredRecord):
    """A stored record that can't be decoded."""

    def __init__(self, log_offset: int, reason: str) -> None:
        message = f"the record at offset {log_offset} can't be read: {reason}"
        super().__init__(message, log_offset, reason)


def run_records(run: ShareStateRun, first_delta: int) -> bytes:
    """Returns the records section of one run. ``first_delta`` is the offset delta of its record.
    Attributes and timestamp delta are 0, and the record has no headers."""
    body = encode_record_body(0, first_delta, encode_key(run), encode_value(run.value))
    return encode_varint(len(body)) + body


def run_bytes_at_most(key: SharePartitionKey, batches: int) -> int:
    """Returns an upper bound of the size in bytes of a record with this key and this number of
    batches."""
    return _RECORD_BYTES_AT_MOST + len(key.group_id.encode()) + _BATCH.size * batches


def encode_key(run: ShareStateRun) -> bytes:
    record_type = UPDATE if isinstance(run.value, UpdateValue) else SNAPSHOT
    group_id, topic_id, partition = run.key
    name = group_id.encode()
    head = record_type.to_bytes(2, "big") + len(name).to_bytes(2, "big")
    return head + name + _PLACE.pack(topic_id, partition)


def encode_value(value: SnapshotValue | UpdateValue | None) -> bytes | None:
    """Returns the bytes of a value; None for a tombstone."""
    if value is None:
        return None
    if isinstance(value, SnapshotValue):
        head = _SNAPSHOT_HEAD.pack(_VALUE_VERSION, *value[:6])
    else:
        head = _UPDATE_HEAD.pack(_VALUE_VERSION, *value[:3])
    columns = zip(*value.batches, strict=True) if value.batches else ((),) * 4
    batches = map(_BATCH.pack, *columns, repeat(0))
    count = value.delivery_complete_count
    tags = b"\0" if count == UNKNOWN_COUNT else _COUNT_TAG + count.to_bytes(4, "big", signed=True)
    return b"".join((head, varint(len(value.batches) + 1), *batches, tags))


def runs_of_records(
    records: Iterable[Record], skipped: Counter[int]
) -> Iterator[tuple[int, ShareStateRun]]:
    """Yields the log offset and the run of each record; ``skipped`` counts the records of unknown
    types, by type.

    Raises CorruptShareRecord.
    """
    for offset, run in runs_in_pieces(records, skipped):
        if run is not None:
            yield offset, run


def runs_in_pieces(
    records: Iterable[Record], skipped: Counter[int]
) -> Iterator[tuple[int, ShareStateRun | None]]:
    """Yields the runs of `runs_of_records`. A large record is decoded in several steps; the
    function yields None in place of a run after each of these steps."""
    for record in records:
        steps = _run(record, skipped)
        while True:
            try:
                next(steps)
            except StopIteration as done:
                if done.value is not None:
                    yield record.offset, done.value
                break
            except (ProtocolError, ValueError) as error:
                raise CorruptShareRecord(record.offset, str(error)) from None
            yield record.offset, None


def _run(record: Record, skipped: Counter[int]) -> Generator[None, None, ShareStateRun | None]:
    key = record.key
    if key is None or len(key) < 2:
        raise ProtocolError("the key is missing, or too short to contain a record type")
    record_type = int.from_bytes(key[:2], "big", signed=True)
    if record_type not in (SNAPSHOT, UPDATE):
        skipped[record_type] += 1
        return None
    place_at = len(key) - _PLACE.size
    size = int.from_bytes(key[2:4], "big", signed=True)
    if size != place_at - 4:
        raise ProtocolError(f"the key of {len(key)} bytes can't have a group id of {size} bytes")
    topic_id, partition = _PLACE.unpack_from(key, place_at)
    found = SharePartitionKey(str(key[4:place_at], "utf-8"), topic_id, partition)
    if record.value is not None:
        value = yield from decode_in_pieces(record_type, record.value)
        return ShareStateRun(found, value)
    if record_type == UPDATE:
        raise ProtocolError("a ShareUpdate must not be a tombstone")
    return ShareStateRun(found, None)


def decode_value(record_type: int, data: bytes) -> SnapshotValue | UpdateValue:
    """Returns the value of a record of this type. Raises ProtocolError or ValueError."""
    from protocol.steps import at_once  # a broker decodes in pieces

    return at_once(decode_in_pieces(record_type, data))


def decode_in_pieces(
    record_type: int, data: bytes
) -> Generator[None, None, SnapshotValue | UpdateValue]:
    """Returns the same as `decode_value`; yields after each `_BATCHES_PER_PIECE` batches."""
    if len(data) < 2:
        raise ProtocolError(f"the value of {len(data)} bytes is too short to contain a version")
    version = int.from_bytes(data[:2], "big", signed=True)
    if version != _VALUE_VERSION:
        raise ProtocolError(f"the value has version {version}, expected {_VALUE_VERSION}")
    value = yield from _decode_usual(record_type, data)
    if value is None:
        value = _decode_by_schema(record_type, data)
    batches, ascending = value.batches, True
    for first in range(0, len(batches), _BATCHES_PER_PIECE):
        piece = batches[first : first + _BATCHES_PER_PIECE + 1]
        if has_empty(piece):
            batch = next(each for each in piece if each.last_offset < each.first_offset)
            raise ProtocolError(f"the batch {batch.first_offset} to {batch.last_offset} is empty")
        ascending = ascending and are_ascending(piece)
        if first + _BATCHES_PER_PIECE < len(batches):
            yield
    return value if ascending else value._replace(batches=combine((), batches, -1))


def _decode_usual(
    record_type: int, data: bytes
) -> Generator[None, None, SnapshotValue | UpdateValue | None]:
    """Decodes a value whose only tagged field may be the delivery complete count, as Kafka 4.3.1
    writes all values; returns None for other values."""
    head = _SNAPSHOT_HEAD if record_type == SNAPSHOT else _UPDATE_HEAD
    try:
        _, *fields = head.unpack_from(data)
        length, position = _short_varint(data, head.size)
        end = position + _BATCH.size * (length - 1)
        if length < 1 or end >= len(data):
            return None
        if any(data[position + _TAGS_AT : end : _BATCH.size]):
            return None
        batches: list[StateBatch] = []
        size = _BATCH.size * _BATCHES_PER_PIECE
        for first in range(position, end, size):
            piece = data[first : min(first + size, end)]
            batches += map(StateBatch._make, _UNTAGGED.iter_unpack(piece))
            if first + size < end:
                yield
    except (IndexError, struct.error):
        return None  # decoding by the schema raises the exact error
    rest = data[end:]
    if rest == b"\0":
        complete_count = UNKNOWN_COUNT
    elif len(rest) == 7 and rest[:3] == _COUNT_TAG:
        complete_count = int.from_bytes(rest[3:], "big", signed=True)
    else:
        return None
    return _value(record_type, fields, batches, complete_count)


def _short_varint(data: bytes, position: int) -> tuple[int, int]:
    """Returns an unsigned varint and the position after it. Returns -1 if the varint has more than
    three bytes: no state that fits into max.message.bytes contains such a varint."""
    value = 0
    for index in range(3):
        byte = data[position + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value, position + index + 1
    return -1, position


def _decode_by_schema(record_type: int, data: bytes) -> SnapshotValue | UpdateValue:
    name = "ShareSnapshotValue" if record_type == SNAPSHOT else "ShareUpdateValue"
    found = log_records.decode(name, _VALUE_VERSION, data, 2)
    fields = [found["snapshot_epoch"], found["leader_epoch"], found["start_offset"]]
    if record_type == SNAPSHOT:
        fields.insert(1, found["state_epoch"])
        fields += [found["create_timestamp"], found["write_timestamp"]]
    batches = [
        StateBatch(
            each["first_offset"],
            each["last_offset"],
            each["delivery_state"],
            each["delivery_count"],
        )
        for each in found["state_batches"]
    ]
    complete_count = found.get("delivery_complete_count", UNKNOWN_COUNT)
    return _value(record_type, fields, batches, complete_count)


def _value(
    record_type: int, fields: Sequence[Any], batches: Sequence[StateBatch], complete_count: int
) -> SnapshotValue | UpdateValue:
    if record_type == SNAPSHOT:
        return SnapshotValue(*fields, tuple(batches), complete_count)  # type: ignore[call-arg]
    return UpdateValue(*fields, tuple(batches), complete_count)  # type: ignore[call-arg]
