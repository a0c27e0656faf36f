"""Encodes and decodes Fetch between brokers by hand, because followers send it continuously.

The reference codec copies all records, and takes ten times as long for many partitions. Tests
compare the results of both codecs in every version. Decoding skips the fields that a follower does
not use.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from protocol.errors import ProtocolError
from protocol.wire import (
    read_compact_count,
    read_compact_string,
    read_count,
    read_string,
    read_varint,
    skip_tags,
    write_compact_count,
    write_compact_string,
    write_count,
    write_string,
)

TopicKey = str | bytes
"""The name of a topic; from version 13 on, the id of the topic."""

OLDEST, NEWEST = 3, 17
WITH_SESSIONS = 7
FLEXIBLE = 12
WITH_IDS = 13
_WITH_REPLICA_STATE = 15
_DIVERGING_TAG = 0
_REPLICA_STATE_TAG = 1

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_REPLICA_STATE = struct.Struct(">BBBiqB")
"""The tagged field with the follower's broker id and epoch. It consists of the number of tags, the
tag, the size, the replica id, the replica epoch, and an empty list of nested tags."""
_DIVERGING = struct.Struct(">iq")
_ABORTED_BYTES = 16


class Asked(NamedTuple):
    """One partition in a follower's Fetch request."""

    partition: int
    leader_epoch: int
    """The leader epoch that LeaderAndIsr announced. The leader compares it with its own leader
    epoch."""
    offset: int
    last_epoch: int
    """The leader epoch of the last record before ``offset``; -1 if the log is empty."""
    log_start_offset: int
    max_bytes: int


class FetchHead(NamedTuple):
    """The fields of a Fetch request, except its partitions."""

    replica_id: int
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    session_id: int
    session_epoch: int


class Answered(NamedTuple):
    """One partition in a Fetch response."""

    partition: int
    error_code: int
    high_watermark: int
    log_start_offset: int
    diverging: tuple[int, int] | None
    """The epoch and the end offset from which the follower's log diverges; None if the logs do not
    diverge."""
    records: memoryview


class FetchAnswer(NamedTuple):
    """A decoded Fetch response."""

    error_code: int
    session_id: int
    partitions: Sequence[tuple[TopicKey, Answered]]


# -- the request


def _partition_format(version: int) -> struct.Struct:
    form = ">i" + ("i" if version >= 9 else "") + "q" + ("i" if version >= FLEXIBLE else "")
    form += ("q" if version >= 5 else "") + "i" + ("B" if version >= FLEXIBLE else "")
    return struct.Struct(form)


_PARTITION = {version: _partition_format(version) for version in range(OLDEST, NEWEST + 1)}


def encode_fetch(
    version: int,
    head: FetchHead,
    asked: Mapping[TopicKey, Sequence[Asked]],
    forgotten: Mapping[TopicKey, Sequence[int]],
) -> bytes:
    """Returns the encoded body of a Fetch request. ``forgotten`` are the partitions that the leader
    must remove from the fetch session."""
    flexible = version >= FLEXIBLE
    out = bytearray()
    if version < _WITH_REPLICA_STATE:
        out += _INT32.pack(head.replica_id)
    out += struct.pack(">iii", head.max_wait_ms, head.min_bytes, head.max_bytes)
    if version >= 4:
        out.append(0)  # read_uncommitted
    if version >= WITH_SESSIONS:
        out += struct.pack(">ii", head.session_id, head.session_epoch)
    count = write_compact_count if flexible else write_count
    count(out, len(asked))
    for topic, partitions in asked.items():
        _write_topic(out, version, topic)
        count(out, len(partitions))
        for each in partitions:
            out += _packed(version, each)
        if flexible:
            out.append(0)
    if version >= WITH_SESSIONS:
        count(out, len(forgotten))
        for topic, indexes in forgotten.items():
            _write_topic(out, version, topic)
            count(out, len(indexes))
            out += struct.pack(f">{len(indexes)}i", *indexes)
            if flexible:
                out.append(0)
    if version >= 11:
        out += b"\1" if flexible else b"\0\0"  # no rack
    if version >= _WITH_REPLICA_STATE:
        state = (head.replica_id, head.replica_epoch)
        out += _REPLICA_STATE.pack(1, _REPLICA_STATE_TAG, 13, *state, 0)
    elif flexible:
        out.append(0)
    return bytes(out)


def _write_topic(out: bytearray, version: int, topic: TopicKey) -> None:
    if isinstance(topic, bytes):
        out += topic
    elif version >= FLEXIBLE:
        write_compact_string(out, topic)
    else:
        write_string(out, topic)


def _packed(version: int, asked: Asked) -> bytes:
    index, leader_epoch, offset, last_epoch, start, max_bytes = asked
    pack = _PARTITION[version].pack
    if version >= FLEXIBLE:
        return pack(index, leader_epoch, offset, last_epoch, start, max_bytes, 0)
    if version >= 9:
        return pack(index, leader_epoch, offset, start, max_bytes)
    if version >= 5:
        return pack(index, offset, start, max_bytes)
    return pack(index, offset, max_bytes)


# -- the response


def decode_fetch(version: int, frame: bytes, position: int) -> FetchAnswer:
    """Decodes the response whose body begins at ``position``. The records are not copied. Raises
    ProtocolError."""
    try:
        return _Reading(version, frame, position).answer()
    except (struct.error, IndexError, UnicodeDecodeError):
        raise ProtocolError(f"Fetch response v{version} is truncated") from None


class _Reading:
    """Decodes one Fetch response."""

    def __init__(self, version: int, frame: bytes, position: int) -> None:
        self._version = version
        self._frame = frame
        self._whole = memoryview(frame)
        self._at = position
        self._flexible = version >= FLEXIBLE
        self._count = read_compact_count if self._flexible else read_count
        self._fixed = struct.Struct(
            ">ihq" + ("q" if version >= 4 else "") + ("q" if version >= 5 else "")
        )

    def answer(self) -> FetchAnswer:
        error_code = session_id = 0
        self._at += 4  # throttle time
        if self._version >= WITH_SESSIONS:
            (error_code,) = _INT16.unpack_from(self._frame, self._at)
            (session_id,) = _INT32.unpack_from(self._frame, self._at + 2)
            self._at += 6
        found: list[tuple[TopicKey, Answered]] = []
        for _ in range(self._number()):
            topic = self._topic()
            found += [(topic, self._partition()) for _ in range(self._number())]
            self._skip_tags()
        self._skip_tags()
        if self._at != len(self._frame):
            raise ProtocolError(
                f"unexpected {len(self._frame) - self._at} bytes after the end of a Fetch response"
            )
        return FetchAnswer(error_code, session_id, found)

    def _number(self) -> int:
        count, self._at = self._count(self._frame, self._at, 1)
        return max(count, 0)

    def _topic(self) -> TopicKey:
        topic: TopicKey
        if self._version >= WITH_IDS:
            topic = self._frame[self._at : self._at + 16]
            self._at += 16
        elif self._flexible:
            topic, self._at = read_compact_string(self._frame, self._at)
        else:
            topic, self._at = read_string(self._frame, self._at)
        return topic

    def _partition(self) -> Answered:
        fixed = self._fixed.unpack_from(self._frame, self._at)
        self._at += self._fixed.size
        if self._version >= 4:
            self._skip_aborted()
        if self._version >= 11:
            self._at += 4  # the preferred replica for consumers
        records = self._records()
        diverging = self._diverging() if self._flexible else None
        start = fixed[4] if self._version >= 5 else -1
        return Answered(fixed[0], fixed[1], fixed[2], start, diverging, records)

    def _skip_aborted(self) -> None:
        for _ in range(self._number()):
            self._at += _ABORTED_BYTES
            self._skip_tags()

    def _records(self) -> memoryview:
        if self._flexible:
            length, self._at = read_varint(self._frame, self._at)
            length -= 1
        else:
            (length,) = _INT32.unpack_from(self._frame, self._at)
            self._at += 4
        begin, end = self._at, self._at + max(length, 0)
        if end > len(self._frame):
            raise ProtocolError(
                f"the records of a Fetch response have a length of {length} bytes, but only"
                f" {len(self._frame) - begin} bytes are left"
            )
        self._at = end
        return self._whole[begin:end]

    def _diverging(self) -> tuple[int, int] | None:
        """Reads the tagged fields of a partition. Returns the epoch and end offset of the
        divergence, or None."""
        frame, at = self._frame, self._at
        self._skip_tags()
        count, at = read_varint(frame, at)
        for _ in range(count):
            tag, at = read_varint(frame, at)
            size, at = read_varint(frame, at)
            if tag == _DIVERGING_TAG and size >= _DIVERGING.size:
                epoch, end_offset = _DIVERGING.unpack_from(frame, at)
                return (epoch, end_offset) if end_offset >= 0 else None
            at += size
        return None

    def _skip_tags(self) -> None:
        if self._flexible:
            self._at = skip_tags(self._frame, self._at)
