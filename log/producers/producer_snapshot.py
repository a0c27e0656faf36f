"""Kafka's ``.snapshot`` file: the state of a partition's producers at an offset.

The file has a version, the CRC-32C of the bytes after the CRC, a count, and an entry of 46 bytes
for each producer. An entry has only the last batch of its producer.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence

from log.producers.producer_table import A_BATCH, FIRST_BATCH, State, pieces
from protocol.records.crc import crc32c

SEQUENCE_MASK = 0x7FFFFFFF
_VERSION = 1
_HEADER = struct.Struct(">hIi")
_ENTRY = struct.Struct(">qhiqiqiq")
_CHECKED_FROM = 6  # the CRC covers the bytes from this position on


class ProducerImage:
    """The producers of a log at the time when the log ended at ``offset``, and the bytes of their
    snapshot file."""

    def __init__(self, offset: int, shards: Sequence[dict[int, State]]) -> None:
        self.offset = offset
        self.is_void = False
        """True if the image must not be written, because the log was truncated, closed or saved
        after `freeze`."""
        self._shards = shards
        self._data = bytearray()

    def pack(self) -> Iterator[None]:
        """Builds the file's bytes, in short steps."""
        count = 0
        data = bytearray(_HEADER.size)
        for piece in pieces(self._shards):
            data += _entries(piece)
            count += len(piece)
            yield
        _HEADER.pack_into(data, 0, _VERSION, 0, count)
        self._data = data
        self._shards = ()

    def data(self) -> bytearray:
        """Returns the file's bytes. `pack` must have finished. May be called in any thread."""
        version, _, count = _HEADER.unpack_from(self._data)
        checksum = crc32c(memoryview(self._data)[_CHECKED_FROM:])
        _HEADER.pack_into(self._data, 0, version, checksum, count)
        return self._data


def _entries(states: Iterable[tuple[int, State]]) -> bytes:
    pack = _ENTRY.pack
    entries = []
    for producer_id, state in states:
        last_sequence = last_offset = -1
        delta = 0
        if len(state) > FIRST_BATCH:
            sequence, delta, first_offset, _ = state[-A_BATCH:]
            last_offset = first_offset + delta
            if sequence >= 0:
                last_sequence = (sequence + delta) & SEQUENCE_MASK
        epoch, timestamp_ms, coordinator_epoch, began = state[:FIRST_BATCH]
        entries.append(
            pack(
                producer_id,
                epoch,
                last_sequence,
                last_offset,
                delta,
                timestamp_ms,
                coordinator_epoch,
                began,
            )
        )
    return b"".join(entries)


def parse(data: bytes) -> Iterator[tuple[int, State]] | None:
    """Yields the producer ids and states in a file. Returns None for a damaged file."""
    if len(data) < _HEADER.size:
        return None
    version, checksum, count = _HEADER.unpack_from(data)
    if (
        version != _VERSION
        or crc32c(memoryview(data)[_CHECKED_FROM:]) != checksum
        or len(data) != _HEADER.size + count * _ENTRY.size
    ):
        return None
    return map(_state, _ENTRY.iter_unpack(memoryview(data)[_HEADER.size :]))


def _state(fields: tuple[int, ...]) -> tuple[int, State]:
    (
        producer_id, epoch, last_sequence, last_offset,
        delta, timestamp_ms, coordinator_epoch, began,
    ) = fields  # fmt: skip
    state: State = (epoch, timestamp_ms, coordinator_epoch, began)
    if last_offset >= 0:
        sequence = (last_sequence - delta) & SEQUENCE_MASK if last_sequence >= 0 else -1
        state = (*state, sequence, delta, last_offset - delta, timestamp_ms)
    return producer_id, state
