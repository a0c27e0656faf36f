"""The Fetch answer as a frame whose records stay in their files until they are sent.

The reference codec would copy every record twice; this writes the fields by hand and puts slices of
segments between them. A test compares it with the reference in every version.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from broker.apis.fetch.sessions import TopicKey
from broker.net.request import Chunk
from protocol.headers import response_header
from protocol.messages.fetch import API
from protocol.slotted import slotted
from protocol.wire import write_compact_string, write_string, write_varint

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_PARTITION = struct.Struct(">ihq")
_THROTTLE_ERROR_SESSION = struct.Struct(">ihi")
_DIVERGING = struct.Struct(">BBBiqB")
"""Count of tags, tag 0, its size; epoch, end offset, no tags of their own."""

_FLEXIBLE = 12
_WITH_IDS = 13


@slotted
class Fetched:
    """What is answered for one partition; ``records`` is bytes, or slices of files."""

    partition: int
    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted_transactions: Sequence[tuple[int, int]] | None = None
    """Producer ids and first offsets; None when the reader takes uncommitted records."""
    records: Sequence[Chunk] = ()
    size_bytes: int = 0
    """Bytes of ``records``."""
    diverging: tuple[int, int] | None = None
    """Epoch and end offset, for a reader whose last epoch ended elsewhere (KIP-595)."""
    more_follows: bool = False
    """The records are on an older segment than where the reader ends: none of the bytes to come
    lengthens this answer, so that it does not wait for them."""


def refused(partition: int, error_code: int) -> Fetched:
    """The answer for a partition whose log is not asked: Kafka names no aborted ones, not null."""
    return Fetched(partition, error_code, aborted_transactions=())


class _Frame:
    """Chunks of a frame: small fields gather in one buffer, records stand between."""

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []
        self.out = bytearray()
        self.size = 0

    def put(self, records: Sequence[Chunk], size_bytes: int) -> None:
        """Adds records behind what was written."""
        self._close()
        self.chunks.extend(records)
        self.size += size_bytes

    def finish(self) -> list[Chunk]:
        """The frame with its length."""
        self._close()
        return [_INT32.pack(self.size), *self.chunks]

    def _close(self) -> None:
        if self.out:
            self.chunks.append(self.out)
            self.size += len(self.out)
            self.out = bytearray()


def fetch_frame(
    version: int,
    correlation_id: int,
    error_code: int,
    session_id: int,
    topics: Sequence[tuple[TopicKey, Sequence[Fetched]]],
) -> list[Chunk]:
    """A whole Fetch answer of ``version``; topics are named, or by id from version 13 on."""
    flexible = version >= _FLEXIBLE
    frame = _Frame()
    out = frame.out
    out += response_header(API.key, version, correlation_id)
    if version >= 7:
        out += _THROTTLE_ERROR_SESSION.pack(0, error_code, session_id)
    elif version >= 1:
        out += _INT32.pack(0)
    _count(out, len(topics), flexible)
    for key, partitions in topics:
        out = frame.out
        if isinstance(key, bytes):
            out += key
        elif flexible:
            write_compact_string(out, key)
        else:
            write_string(out, key)
        _count(out, len(partitions), flexible)
        for fetched in partitions:
            _partition(frame, version, flexible, fetched)
        if flexible:
            frame.out.append(0)
    if flexible:
        frame.out.append(0)
    return frame.finish()


def _partition(frame: _Frame, version: int, flexible: bool, fetched: Fetched) -> None:
    out = frame.out
    out += _PARTITION.pack(fetched.partition, fetched.error_code, fetched.high_watermark)
    if version >= 4:
        out += _INT64.pack(fetched.last_stable_offset)
        if version >= 5:
            out += _INT64.pack(fetched.log_start_offset)
        aborted = fetched.aborted_transactions
        if aborted is None:
            out += b"\0" if flexible else _INT32.pack(-1)
        else:
            _count(out, len(aborted), flexible)
            for producer_id, first_offset in aborted:
                out += _INT64.pack(producer_id) + _INT64.pack(first_offset)
                if flexible:
                    out.append(0)
        if version >= 11:
            out += _INT32.pack(-1)  # no preferred read replica
    size = fetched.size_bytes
    if flexible:
        write_varint(out, size + 1)
    else:
        out += _INT32.pack(size)
    if size:
        frame.put(fetched.records, size)
    if flexible:
        if fetched.diverging is None:
            frame.out.append(0)
        else:
            frame.out += _DIVERGING.pack(1, 0, 13, *fetched.diverging, 0)


def _count(out: bytearray, count: int, flexible: bool) -> None:
    if flexible:
        write_varint(out, count + 1)
    else:
        out += _INT32.pack(count)
