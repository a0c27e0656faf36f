"""The values that a log accepts and returns, except batches."""

from __future__ import annotations

from typing import NamedTuple

from log.files.filesystem import File
from log.segment import Segment


class AppendInfo(NamedTuple):
    """The offsets of a producer's appended batches, for the Produce response.
    ``log_append_time_ms`` is -1 unless the topic has log append time. ``duplicate`` is true if the
    batches were already in the log, at these offsets."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool = False


class Marker(NamedTuple):
    """The end of a producer's transaction, as the transaction coordinator sends it to a partition.
    ``rules`` is the version of the transaction protocol: 1, or 2, in which each transaction has an
    epoch of its own (KIP-890)."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    rules: int = 1


class Appended(NamedTuple):
    """One batch of a producer: its sequence numbers, its offsets, and the time of its append. Both
    sequence numbers are -1 if a group coordinator wrote the batch in a transaction."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp_ms: int


class Ended(NamedTuple):
    """A transaction marker with its offset and its time (wall milliseconds)."""

    marker: Marker
    offset: int
    timestamp_ms: int


class Slice(NamedTuple):
    """The ``length`` bytes of a segment's ``file`` from ``position`` on. These bytes never change.
    The file is open, so that it can be read even after it was renamed or removed."""

    file: File
    position: int
    length: int


class ReadInfo(NamedTuple):
    """The result of a read. The bytes are not in memory yet: they are slices of files, which stay
    open while this object exists.

    The first slice begins with the batch that contains the requested offset. As in Kafka, the last
    batch may be incomplete. If ``first_entry_incomplete`` is true, the first batch is already
    incomplete, and is the only one.
    """

    slices: tuple[Slice, ...]
    log_start_offset: int
    log_end_offset: int
    first_entry_incomplete: bool = False
    segment: Segment | None = None
    """The segment to which the bytes belong; None if no bytes were read. After the read, the
    segment may have been removed from the log."""

    @property
    def size_bytes(self) -> int:
        return sum(piece.length for piece in self.slices)

    @property
    def data(self) -> bytes:
        return b"".join(piece.file.read(piece.position, piece.length) for piece in self.slices)


class TimestampOffset(NamedTuple):
    """A record that was found by its time: timestamp (wall milliseconds), offset and leader
    epoch."""

    timestamp_ms: int
    offset: int
    leader_epoch: int
