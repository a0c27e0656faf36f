"""A snapshot of one shard as bytes (``groups.image``), and back: docs/formats/groups-image.md.

A snapshot is fuzzy: it is made in slices while commits go on. It says from which log offset the log
must be replayed over it (*begin*), and up to which offset it may contain records (*end*). The
loader replays all records from *begin* on, in order. Each of them overwrites or removes the value
of its key, so that it does not matter which of them the snapshot contained. All records below
*begin* are in the snapshot.

What transactions have pending comes first, and of it only what lies below *begin*: a marker behind
it must not end what its producer wrote later, and whoever is no more pending when it is looked at
has been committed when the offsets are.

That holds only for the log that it was made from, with nothing missing from *begin* on. The two
marks name the last batches below *begin* and below *end*, and the loader checks both.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from offsets.columns import TopicColumns
from offsets.columns_image import BadImage, decode_columns, encode_columns
from offsets.record_values import Malformed, group_value, read_group_value
from offsets.runs import GroupRun, GroupValue
from protocol.records.crc import crc32c

VERSION = 4
"""1 had nothing pending, 2 no leader epochs; in 3 there may be commits that came after the end of
their transaction (broker/cores/groups/records.py)."""
_MAGIC = b"MUSTERGI"
_BLOCK = struct.Struct("<BI")
_CRC = struct.Struct("<I")
_HEAD = struct.Struct("<8sH16siqqqIi")
_END = struct.Struct("<qqIiQQQ")
_PRODUCER = struct.Struct("<qh")
_GROUP = struct.Struct("<HqI")

HEAD, OFFSETS, GROUPS, END, PENDING = 1, 2, 3, 4, 5
"""Kinds of blocks: HEAD first, END last, each once."""


class BatchMark(NamedTuple):
    """A batch of the log, to be known again.

    A leader epoch has one leader, who gives each offset once; a log that has a batch of it has all
    that lay below in that leader's log. So a log that was truncated, and has grown under another
    leader since, is never taken for the one that a snapshot was made from.
    """

    base_offset: int
    crc: int
    leader_epoch: int
    """-1: none."""


class ImageHead(NamedTuple):
    """Whose snapshot it is, and where in the log it begins."""

    topic_id: bytes
    partition: int
    log_start_offset: int
    begin_offset: int
    """All records below are in the snapshot; those from here on are replayed over it."""
    begin_mark: BatchMark
    """The last batch below ``begin_offset``."""


class ImageEnd(NamedTuple):
    """How far the log was when the snapshot was whole, and what is in it."""

    end_offset: int
    """No record at or above it is in the snapshot."""
    end_mark: BatchMark
    """The last batch below ``end_offset``."""
    offsets: int
    groups: int
    """Group records; groups of offsets alone have none."""
    pending: int
    """Offsets of transactions that had not ended."""


class ImageWriter:
    """Gives the bytes of a snapshot piece by piece, in order: ``head``, ``block`` ..., ``end``."""

    def __init__(self) -> None:
        self._crc = 0
        self.offsets = 0
        self.groups = 0
        self.pending = 0

    def head(self, head: ImageHead) -> bytes:
        """The first piece."""
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
        """A piece of ``offsets`` entries, from ``encode_columns``."""
        self.offsets += offsets
        return self._sealed(OFFSETS, encoded)

    def pending_block(self, encoded: list[bytes], offsets: int) -> bytes:
        """A piece of what is pending, from ``encode_pending``."""
        self.pending += offsets
        return self._sealed(PENDING, encoded)

    def groups_block(self, encoded: list[bytes]) -> bytes:
        """A piece of group records, from ``encode_group``."""
        self.groups += len(encoded)
        return self._sealed(GROUPS, encoded)

    def end(self, end_offset: int, end_mark: BatchMark) -> bytes:
        """The last piece; without it there is no snapshot."""
        payload = _END.pack(end_offset, *end_mark, self.offsets, self.groups, self.pending)
        return self._sealed(END, [payload])

    def _sealed(self, kind: int, parts: list[bytes]) -> bytes:
        """A block with its checksum, which goes over that of the block before it too."""
        size = sum(map(len, parts))
        block = b"".join((_CRC.pack(self._crc), _BLOCK.pack(kind, size), *parts))
        self._crc = crc32c(block)
        return block[_CRC.size :] + _CRC.pack(self._crc)


def encode_group(group_id: str, record_offset: int, value: GroupValue) -> bytes:
    """A group's last record: its log offset and its value. UnwritableRun for what fits none."""
    name, raw = group_id.encode(), group_value(value)
    return _GROUP.pack(len(name), record_offset, len(raw)) + name + raw


def encode_pending(
    producer_id: int, producer_epoch: int, group_id: str, topic: str, columns: TopicColumns
) -> bytes:
    """What a producer has pending in a (group, topic)."""
    return _PRODUCER.pack(producer_id, producer_epoch) + encode_columns(group_id, topic, columns)


class Image:
    """A whole snapshot whose checksums are right."""

    def __init__(self, view: memoryview, head: ImageHead, end: ImageEnd, blocks: Blocks) -> None:
        self.head = head
        self.end = end
        self._view = view
        self._blocks = blocks

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole file."""
        return len(self._view)

    def offsets(self) -> Iterator[tuple[str, str, TopicColumns]]:
        """Group id, topic and columns of every (group, topic). Raises BadImage."""
        for kind, start, end in self._blocks:
            view = self._view[:end]
            position = start
            while kind == OFFSETS and position < end:
                group_id, topic, columns, position = decode_columns(view, position)
                yield group_id, topic, columns

    def pending(self) -> Iterator[tuple[int, int, str, str, TopicColumns]]:
        """Producer, epoch, group id, topic and columns of what was pending. Raises BadImage."""
        for kind, start, end in self._blocks:
            view = self._view[:end]
            position = start
            while kind == PENDING and position < end:
                if end - position < _PRODUCER.size:
                    raise BadImage(f"an entry ends in the middle, at byte {position}")
                producer_id, epoch = _PRODUCER.unpack_from(view, position)
                position += _PRODUCER.size
                group_id, topic, columns, position = decode_columns(view, position)
                yield producer_id, epoch, group_id, topic, columns

    def groups(self) -> Iterator[tuple[int, GroupRun]]:
        """The log offset and the run of every group's last record. Raises BadImage."""
        for kind, start, end in self._blocks:
            position = start
            while kind == GROUPS and position < end:
                record_offset, run, position = _decode_group(self._view[:end], position)
                yield record_offset, run


Blocks = list[tuple[int, int, int]]
"""(kind, position of the payload, its end)."""


def read_image(data: bytes) -> Image:
    """Check a file's bytes, every checksum of them. Raises BadImage."""
    view = memoryview(data)
    blocks: Blocks = []
    position, crc = 0, 0
    while position < len(data):
        if len(data) - position < _BLOCK.size + _CRC.size:
            raise BadImage(f"it ends in the middle of a block, at byte {position}")
        kind, size = _BLOCK.unpack_from(data, position)
        start = position + _BLOCK.size
        end = start + size
        if end + _CRC.size > len(data):
            raise BadImage(f"a block of {size} bytes at byte {position} of {len(data)}")
        crc = crc32c(_CRC.pack(crc) + view[position:end])
        if crc != _CRC.unpack_from(data, end)[0]:
            raise BadImage(f"the checksum of the block at byte {position} is wrong")
        blocks.append((kind, start, end))
        position = end + _CRC.size
    kinds = [kind for kind, _, _ in blocks]
    if (
        kinds[:1] != [HEAD]
        or kinds[-1:] != [END]
        or not {*kinds[1:-1]} <= {OFFSETS, GROUPS, PENDING}
    ):
        raise BadImage("it is not whole: its blocks are not a head, contents and an end")
    head = _read_head(view[blocks[0][1] : blocks[0][2]])
    end_payload = view[blocks[-1][1] : blocks[-1][2]]
    if len(end_payload) != _END.size:
        raise BadImage(f"its end has {len(end_payload)} bytes")
    end_offset, *rest = _END.unpack(end_payload)
    image_end = ImageEnd(end_offset, BatchMark(*rest[:3]), *rest[3:])
    return Image(view, head, image_end, blocks)


def _read_head(payload: memoryview) -> ImageHead:
    if len(payload) < 10 or payload[:8] != _MAGIC:
        raise BadImage("it does not begin as a snapshot of groups does")
    version = int.from_bytes(payload[8:10], "little")
    if version != VERSION or len(payload) != _HEAD.size:
        raise BadImage(f"version {version} is unknown; this one reads {VERSION}")
    _, _, topic_id, partition, log_start, begin, *mark = _HEAD.unpack(payload)
    return ImageHead(topic_id, partition, log_start, begin, BatchMark(*mark))


def _decode_group(view: memoryview, position: int) -> tuple[int, GroupRun, int]:
    try:
        name_bytes, record_offset, value_bytes = _GROUP.unpack_from(view, position)
        start = position + _GROUP.size + name_bytes
        if start + value_bytes > len(view):
            raise BadImage(f"a group of {value_bytes} bytes at byte {position}")
        group_id = str(view[position + _GROUP.size : start], "utf-8")
        value = read_group_value(bytes(view[start : start + value_bytes]))
    except (struct.error, UnicodeDecodeError, Malformed) as error:
        raise BadImage(f"the group at byte {position}: {error}") from None
    return record_offset, GroupRun(group_id, value), start + value_bytes
