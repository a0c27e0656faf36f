"""What goes into a log besides batches, and the results of appending and reading."""

from __future__ import annotations

from typing import NamedTuple

from log.files.filesystem import File
from log.segment import Segment


class AppendInfo(NamedTuple):
    """Where a producer's batches are: the answer to Produce.

    ``log_append_time_ms`` is -1 unless the topic has log append time. A ``duplicate`` was in the
    log already, at these offsets.
    """

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool = False


class Marker(NamedTuple):
    """The end of a producer's transaction, as its coordinator sends it to a partition.

    ``rules`` are those of the transaction: 1, or 2 with KIP-890's epoch for each transaction.
    """

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    rules: int = 1


class Appended(NamedTuple):
    """One batch of a producer: its sequence numbers, where it lies, and when it was written.

    A coordinator's batch of a transaction has no sequence numbers: both are -1.
    """

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp_ms: int


class Ended(NamedTuple):
    """A marker's place in the log, and its time (wall milliseconds)."""

    marker: Marker
    offset: int
    timestamp_ms: int


class Slice(NamedTuple):
    """Bytes of a segment: ``length`` bytes of ``file`` from ``position``; they never change.

    The file is an opened one: it can be read whatever becomes of its name.
    """

    file: File
    position: int
    length: int


class ReadInfo(NamedTuple):
    """What a read found; the bytes are still in the file, which stays open while this lives.

    The slices hold batches from the one that has the offset asked for; the last may be cut, as
    Kafka cuts it. ``first_entry_incomplete`` says that not even the first is whole.
    """

    slices: tuple[Slice, ...]
    log_start_offset: int
    log_end_offset: int
    first_entry_incomplete: bool = False
    segment: Segment | None = None
    """Whose bytes these are; it may have left the log meanwhile."""

    @property
    def size_bytes(self) -> int:
        """Bytes of all slices."""
        return sum(piece.length for piece in self.slices)

    @property
    def data(self) -> bytes:
        """The bytes, read now."""
        return b"".join(piece.file.read(piece.position, piece.length) for piece in self.slices)


class TimestampOffset(NamedTuple):
    """A record found by time: its timestamp (wall milliseconds), offset and leader epoch."""

    timestamp_ms: int
    offset: int
    leader_epoch: int
