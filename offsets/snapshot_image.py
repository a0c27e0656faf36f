"""Encodes and decodes a snapshot of one shard (``groups.image``, docs/formats/groups-image.md).

A snapshot is fuzzy: it is made in slices while commits continue. It has two log offsets: it
contains all records below *begin*, some records between *begin* and *end*, and no record from *end*
on. The loader restores the snapshot, and replays all records from *begin* on, in order. A replayed
record replaces the value of its key, so it does not matter whether the snapshot already contained
the record.

Pending offsets are the exception, since a marker ends all pending offsets of its producer that
precede the marker in the log. If a marker from *begin* on were replayed, it would also end later
pending offsets that the snapshot contains. So the snapshot contains only pending offsets whose
records are below *begin*, and it contains them before the committed offsets. A pending offset that
was committed or dropped before it was encoded is left out: the committed offsets, which are encoded
later, contain its result.

A snapshot is valid only for its own log, and only if no record from *begin* on is missing. To check
this, it has two marks, which identify the last batches below *begin* and below *end*.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

from offsets.columns import TopicColumns
from offsets.columns_image import BadImage, decode_columns, encode_columns
from offsets.consumer_records import ConsumerGroupRun
from offsets.record_values import Malformed, group_value, read_group_value
from offsets.runs import GroupRun, GroupStateRun, GroupValue
from offsets.share_records import ShareGroupRun
from offsets.state_codecs import CODECS
from offsets.streams_records import StreamsGroupRun
from protocol.records.crc import crc32c

VERSION = 7
"""The version of the format. Older versions differ as follows:

- Version 1 had no pending offsets, version 2 no leader epochs.
- Version 3 may have commits that were written after the end of their transaction
  (broker/cores/groups/records.py).
- Version 4 had no consumer groups, version 5 no share groups, and version 6 no streams
  groups: the broker that wrote such a snapshot had skipped the records of these groups.
  Only the whole log has these records.
"""
RecordT = TypeVar("RecordT")

_MAGIC = b"MUSTERGI"
_BLOCK = struct.Struct("<BI")
_CRC = struct.Struct("<I")
_HEAD = struct.Struct("<8sH16siqqqIi")
_END = struct.Struct("<qqIiQQQQQQ")
_PRODUCER = struct.Struct("<qh")
_GROUP = struct.Struct("<HqI")
_RECORD = struct.Struct("<qII")

HEAD, OFFSETS, GROUPS, END, PENDING = 1, 2, 3, 4, 5
CONSUMER_GROUPS, SHARE_GROUPS, STREAMS_GROUPS = 6, 7, 8
_STATES: dict[int, type[GroupStateRun]] = {
    CONSUMER_GROUPS: ConsumerGroupRun,
    SHARE_GROUPS: ShareGroupRun,
    STREAMS_GROUPS: StreamsGroupRun,
}
"""The class of the runs in a block, by kind of block: consumer, share or streams groups."""
_CONTENTS = {OFFSETS, GROUPS, PENDING, *_STATES}
"""The kinds of blocks between the first block HEAD and the last block END."""


class BatchMark(NamedTuple):
    """Identifies a batch of the log, so that a snapshot is not used for another log.

    In one leader epoch, one leader assigns each offset once. Therefore, if two logs contain the
    same batch of an epoch, the logs are equal up to this batch. A log that was truncated and has
    since grown under another leader is never mistaken for the log of the snapshot.
    """

    base_offset: int
    crc: int
    leader_epoch: int


class ImageHead(NamedTuple):
    """The partition of a snapshot, and the log offset at which the snapshot begins."""

    topic_id: bytes
    partition: int
    log_start_offset: int
    begin_offset: int
    """All records below this offset are in the snapshot. The loader replays the records from this
    offset on."""
    begin_mark: BatchMark
    """The last batch below ``begin_offset``."""


class ImageEnd(NamedTuple):
    """The end of a snapshot: the log offset at which the snapshot was complete, and how many
    elements of each type it has."""

    end_offset: int
    """No record at or above this offset is in the snapshot."""
    end_mark: BatchMark
    """Identifies the last batch below ``end_offset``."""
    offsets: int
    groups: int
    """The number of records of classic groups. A group that has only offsets has no record."""
    pending: int
    consumer_records: int
    share_records: int
    streams_records: int


class ImageWriter:
    """Encodes a snapshot piece by piece: first ``head``, then the blocks, then ``end``."""

    def __init__(self) -> None:
        self._crc = 0
        self.offsets = 0
        self.groups = 0
        self.pending = 0
        self.state_records = dict.fromkeys(_STATES, 0)
        """By kind of block, such as CONSUMER_GROUPS: the number of records in these blocks."""

    def head(self, head: ImageHead) -> bytes:
        payload = _HEAD.pack(
            _MAGIC,
            VERSION,
            head.topic_id,
            head.partition,
            head.log_start_offset,
            head.begin_offset,
            *head.begin_mark,
        )
        return self._sealed(HEAD, [payload])

    def offsets_block(self, encoded: list[bytes], offsets: int) -> bytes:
        """Returns a block of offsets. ``encoded`` has results of ``encode_columns``, which contain
        ``offsets`` offsets in total."""
        self.offsets += offsets
        return self._sealed(OFFSETS, encoded)

    def pending_block(self, encoded: list[bytes], offsets: int) -> bytes:
        """Returns a block of pending offsets. ``encoded`` has results of ``encode_pending``, which
        contain ``offsets`` offsets in total."""
        self.pending += offsets
        return self._sealed(PENDING, encoded)

    def groups_block(self, encoded: list[bytes]) -> bytes:
        """Returns a block of records of classic groups. ``encoded`` has results of
        ``encode_group``."""
        self.groups += len(encoded)
        return self._sealed(GROUPS, encoded)

    def state_block(self, kind: int, encoded: list[bytes]) -> bytes:
        """Returns a block of records of groups. ``encoded`` has results of ``encode_record``.
        ``kind`` is CONSUMER_GROUPS, SHARE_GROUPS or STREAMS_GROUPS."""
        self.state_records[kind] += len(encoded)
        return self._sealed(kind, encoded)

    def end(self, end_offset: int, end_mark: BatchMark) -> bytes:
        """Returns the bytes that end the snapshot file. A snapshot without them is invalid."""
        counts = self.offsets, self.groups, self.pending, *self.state_records.values()
        payload = _END.pack(end_offset, *end_mark, *counts)
        return self._sealed(END, [payload])

    def _sealed(self, kind: int, parts: list[bytes]) -> bytes:
        """Returns a block that ends with its checksum. The checksum also depends on the previous
        block's checksum, so that a missing or exchanged block is detected."""
        size = sum(map(len, parts))
        block = b"".join((_CRC.pack(self._crc), _BLOCK.pack(kind, size), *parts))
        self._crc = crc32c(block)
        return block[_CRC.size :] + _CRC.pack(self._crc)


def encode_group(group_id: str, record_offset: int, value: GroupValue) -> bytes:
    """Encodes the last record of a classic group: its log offset and its value. Raises
    UnwritableRun for a value that does not fit the format."""
    name, raw = group_id.encode(), group_value(value)
    return _GROUP.pack(len(name), record_offset, len(raw)) + name + raw


def encode_record(kind: int, group_id: str, record: Any, timestamp_ms: int) -> bytes:
    """Encodes a record of a group as in the log, with the wall time in ms at which it was written
    (-1 if unknown). ``kind`` is the kind of the block. Raises UnwritableRun for a value that does
    not fit the format."""
    codec = CODECS[_STATES[kind]]
    key: bytes = codec.encode_key(group_id, record)
    value: bytes = codec.encode_value(record) or b""
    head: bytes = _RECORD.pack(timestamp_ms, len(key), len(value))
    return head + key + value


def encode_pending(
    producer_id: int, producer_epoch: int, group_id: str, topic: str, columns: TopicColumns
) -> bytes:
    return _PRODUCER.pack(producer_id, producer_epoch) + encode_columns(group_id, topic, columns)


class Image:
    """A complete snapshot with valid checksums."""

    def __init__(self, view: memoryview, head: ImageHead, end: ImageEnd, blocks: Blocks) -> None:
        self.head = head
        self.end = end
        self._view = view
        self._blocks = blocks

    @property
    def size_bytes(self) -> int:
        return len(self._view)

    def offsets(self) -> Iterator[tuple[str, str, TopicColumns]]:
        """Yields group id, topic and columns of every (group, topic). Raises BadImage."""
        for kind, start, end in self._blocks:
            view = self._view[:end]
            position = start
            while kind == OFFSETS and position < end:
                group_id, topic, columns, position = decode_columns(view, position)
                yield group_id, topic, columns

    def pending(self) -> Iterator[tuple[int, int, str, str, TopicColumns]]:
        """Yields producer id, producer epoch, group id, topic and columns of the pending offsets.
        Raises BadImage."""
        for kind, start, end in self._blocks:
            view = self._view[:end]
            position = start
            while kind == PENDING and position < end:
                if end - position < _PRODUCER.size:
                    raise BadImage(f"the entry at byte {position} is truncated")
                producer_id, epoch = _PRODUCER.unpack_from(view, position)
                position += _PRODUCER.size
                group_id, topic, columns, position = decode_columns(view, position)
                yield producer_id, epoch, group_id, topic, columns

    def groups(self) -> Iterator[tuple[int, GroupRun]]:
        """Yields the log offset and the run of the last record of every classic group. Raises
        BadImage."""
        for kind, start, end in self._blocks:
            position = start
            while kind == GROUPS and position < end:
                record_offset, run, position = _decode_group(self._view[:end], position)
                yield record_offset, run

    def states(self) -> Iterator[GroupStateRun]:
        """Yields the records of every consumer, share and streams group, one record per run. Raises
        BadImage."""
        for kind, start, end in self._blocks:
            position = start
            while kind in _STATES and position < end:
                made: Callable[..., GroupStateRun] = _STATES[kind]
                codec = CODECS[_STATES[kind]]
                found, timestamp_ms, position = _decode_record(
                    self._view[:end], position, codec.decode
                )
                group_id, record = found
                yield made(group_id, [record], timestamp_ms)


Blocks = list[tuple[int, int, int]]
"""The kind of each block, and the start and end positions of its payload."""


def read_image(data: bytes) -> Image:
    """Parses the bytes of a file and verifies all checksums. Raises BadImage."""
    view = memoryview(data)
    blocks: Blocks = []
    position, crc = 0, 0
    while position < len(data):
        if len(data) - position < _BLOCK.size + _CRC.size:
            raise BadImage(f"the block at byte {position} is truncated")
        kind, size = _BLOCK.unpack_from(data, position)
        start = position + _BLOCK.size
        end = start + size
        if end + _CRC.size > len(data):
            raise BadImage(
                f"a block of {size} bytes from byte {position} does not fit into an image of"
                f" {len(data)} bytes"
            )
        crc = crc32c(_CRC.pack(crc) + view[position:end])
        if crc != _CRC.unpack_from(data, end)[0]:
            raise BadImage(f"the checksum of the block at byte {position} is wrong")
        blocks.append((kind, start, end))
        position = end + _CRC.size
    kinds = [kind for kind, _, _ in blocks]
    if kinds[:1] != [HEAD] or kinds[-1:] != [END] or not {*kinds[1:-1]} <= _CONTENTS:
        raise BadImage(
            "the snapshot is incomplete: it must have a head block, content blocks and an end block"
        )
    head = _read_head(view[blocks[0][1] : blocks[0][2]])
    end_payload = view[blocks[-1][1] : blocks[-1][2]]
    if len(end_payload) != _END.size:
        raise BadImage(f"the end block has {len(end_payload)} bytes instead of {_END.size}")
    end_offset, *rest = _END.unpack(end_payload)
    image_end = ImageEnd(end_offset, BatchMark(*rest[:3]), *rest[3:])
    return Image(view, head, image_end, blocks)


def _read_head(payload: memoryview) -> ImageHead:
    if len(payload) < 10 or payload[:8] != _MAGIC:
        raise BadImage("the file is not a snapshot of groups")
    version = int.from_bytes(payload[8:10], "little")
    if version != VERSION or len(payload) != _HEAD.size:
        raise BadImage(f"version {version} is unknown; this Muster reads version {VERSION}")
    _, _, topic_id, partition, log_start, begin, *mark = _HEAD.unpack(payload)
    return ImageHead(topic_id, partition, log_start, begin, BatchMark(*mark))


def _decode_group(view: memoryview, position: int) -> tuple[int, GroupRun, int]:
    try:
        name_bytes, record_offset, value_bytes = _GROUP.unpack_from(view, position)
        start = position + _GROUP.size + name_bytes
        if start + value_bytes > len(view):
            raise BadImage(
                f"the group at byte {position} needs {value_bytes} bytes, more than are left"
            )
        group_id = str(view[position + _GROUP.size : start], "utf-8")
        value = read_group_value(bytes(view[start : start + value_bytes]))
    except (struct.error, UnicodeDecodeError, Malformed) as error:
        raise BadImage(f"the group at byte {position} is invalid: {error}") from None
    return record_offset, GroupRun(group_id, value), start + value_bytes


def _decode_record(
    view: memoryview,
    position: int,
    decode: Callable[[bytes, bytes | None], tuple[str, RecordT] | None],
) -> tuple[tuple[str, RecordT], int, int]:
    """Returns the record at ``position`` with its group id, the wall time at which the record was
    written, and the position after the record."""
    try:
        timestamp_ms, key_bytes, value_bytes = _RECORD.unpack_from(view, position)
        start = position + _RECORD.size
        middle, end = start + key_bytes, start + key_bytes + value_bytes
        if end > len(view):
            raise BadImage(
                f"the record at byte {position} needs {key_bytes + value_bytes} bytes, more than"
                " are left"
            )
        found = decode(bytes(view[start:middle]), bytes(view[middle:end]))
    except (struct.error, Malformed) as error:
        raise BadImage(f"the record at byte {position}: {error}") from None
    if found is None:
        raise BadImage(f"the record at byte {position} has a type that its block can't contain")
    return found, timestamp_ms, end
