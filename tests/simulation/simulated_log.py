"""A simulated log of batches with its fsynced part and a snapshot, all in memory.

The log appends, flushes, loses power and is cleaned. It takes and loads snapshots. Its content has
the bytes of a segment, which the real readers decode.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from broker.cores.groups.kind import blocks_of
from broker.cores.groups.records import GroupReader
from coordinator.config import GroupConfig
from coordinator.shard import GroupShard
from offsets.runs import OwnBatch, Run
from offsets.snapshot_image import BatchMark, ImageHead, ImageWriter, read_image
from protocol.records.batch import encode_batch, read_header, records_of
from protocol.records.markers import transaction_end

NO_MARK = BatchMark(0, 0, -1)
_SHARD = GroupShard(GroupConfig())
TOPIC_ID = bytes(16)


@dataclass
class Batch:
    """Records that are appended either all or not at all."""

    first_offset: int
    end_offset: int
    data: bytes
    runs: list[tuple[int, Run | OwnBatch]] | None = None
    """The decoded ``data``, or None before the first read."""

    def read(self) -> list[tuple[int, Run | OwnBatch]]:
        """Returns the decoded runs of the batch with their log offsets.

        The broker's reader ignores a commit after a marker with a higher epoch, so it must read the
        batches in order. The simulation never writes such a marker, so each batch can be decoded
        alone.
        """
        if self.runs is None:
            reader = GroupReader(_SHARD, 0, 1)
            self.runs = list(reader.runs(self.data, read_header(self.data)))
        return self.runs


@dataclass
class Snapshot:
    """A snapshot: its bytes, the offset from which the log must be replayed, and the part of the
    log that the snapshot includes."""

    data: bytes
    begin: int
    end: int


class SimulatedLog:
    """A log with one writer. If ``flushes``, a record is stable only when it is flushed."""

    def __init__(self, flushes: bool) -> None:
        self.flushes = flushes
        self.batches: list[Batch] = []
        self.end = 0
        self.flushed = 0
        """All records below this offset are fsynced."""
        self.snapshot: Snapshot | None = None

    @property
    def stable(self) -> int:
        """Returns the offset below which all records may be acknowledged."""
        return self.flushed if self.flushes else self.end

    @property
    def data(self) -> bytes:
        return b"".join(batch.data for batch in self.batches)

    def append(self, batches: list[Batch]) -> None:
        for batch in batches:
            assert batch.first_offset == self.end
            self.batches.append(batch)
            self.end = batch.end_offset

    def flush(self) -> None:
        self.flushed = self.end

    def unflushed(self) -> int:
        """Returns the number of batches that a power failure may lose."""
        return sum(batch.end_offset > self.flushed for batch in self.batches)

    def lose(self, count: int) -> None:
        """Removes the last ``count`` batches, as a power failure would."""
        assert count <= self.unflushed()
        if count:
            del self.batches[-count:]
            self.end = max(self.batches[-1].end_offset if self.batches else 0, self.flushed)

    def clean(self, cut: int, tombstones_too: bool) -> None:
        """Cleans the first ``cut`` batches. Keeps the last record of each key, and removes empty
        batches.

        A cleaning removes records of aborted transactions, keeps markers, and stops at the first
        record of an open transaction. If ``tombstones_too`` is true, it also removes tombstones,
        except tombstones after the snapshot.
        """
        keep_from = self.end if self.snapshot is None else self.snapshot.begin
        ends = self._ends()
        unstable = [batch for batch, end in zip(self.batches, ends, strict=True) if end is None]
        if unstable:
            cut = min(cut, self.batches.index(unstable[0]))
        opened = [
            (batch, header, records_of(batch.data, header) if end else [])
            for batch, end in zip(self.batches[:cut], ends, strict=False)
            for header in [read_header(batch.data)]
        ]
        last = {
            record.key: record.offset
            for _, header, records in opened
            for record in records
            if not header.is_control
        }
        cleaned: list[Batch] = []
        for batch, header, records in opened:
            if header.is_control:
                cleaned.append(batch)
                continue
            kept = [
                record
                for record in records
                if last[record.key] == record.offset
                and (record.value is not None or not tombstones_too or record.offset >= keep_from)
            ]
            if len(kept) == header.record_count:
                cleaned.append(batch)
                continue
            if self.snapshot is not None and batch.end_offset > self.snapshot.begin:
                self.snapshot = None
            if kept:
                first, end = batch.first_offset, batch.end_offset
                data = encode_batch(
                    kept,
                    base_offset=first,
                    last_offset=end - 1,
                    producer_id=header.producer_id,
                    producer_epoch=header.producer_epoch,
                    base_sequence=header.base_sequence,
                    is_transactional=header.is_transactional,
                )
                cleaned.append(Batch(first, end, data))
        self.batches[:cut] = cleaned

    def _ends(self) -> list[bool | None]:
        """Returns one value per batch: False if its transaction was aborted, None if it is open,
        and True otherwise."""
        ended: dict[int, bool] = {}
        ends: list[bool | None] = []
        for batch in reversed(self.batches):
            header = read_header(batch.data)
            marker = transaction_end(batch.data, header) if header.is_control else None
            if marker is not None:
                ended[header.producer_id] = marker[0]
            of_transaction = header.is_transactional and not header.is_control
            ends.append(ended.get(header.producer_id) if of_transaction else True)
        return ends[::-1]

    def take_snapshot(self, shard: GroupShard) -> None:
        """Writes a snapshot of ``shard``. All records of the shard must already be appended."""
        writer = ImageWriter()
        head = ImageHead(TOPIC_ID, 0, 0, self.end, NO_MARK)
        blocks = list(blocks_of(shard, writer, head, lambda: False))
        blocks.append(writer.end(self.end, NO_MARK))
        self.snapshot = Snapshot(b"".join(blocks), self.end, self.end)

    def opened(self) -> None:
        """Drops the snapshot if its end offset is above the log end offset, as a broker does when
        it starts."""
        if self.snapshot is not None and self.snapshot.end > self.end:
            self.snapshot = None

    def replay(self, shard: GroupShard, behind: list[Batch], with_snapshot: bool) -> None:
        """Loads ``shard`` from the log and from the batches ``behind``, which are not in the log
        yet and follow it. If ``with_snapshot`` is true, loads the snapshot first, and then only the
        batches from the snapshot's begin offset on."""
        begin = 0
        if with_snapshot and self.snapshot is not None:
            begin = self.snapshot.begin
            image = read_image(self.snapshot.data)
            for entry in image.pending():
                shard.restore_pending(*entry)
            for group_id, topic, columns in image.offsets():
                shard.restore(group_id, topic, columns)
            for record_offset, run in image.groups():
                shard.replay(run, record_offset)
            for records in image.states():
                shard.replay(records, -1)
        for base, run in self._runs(behind):
            if base >= begin:
                shard.replay(run, base)

    def _runs(self, behind: list[Batch]) -> Iterator[tuple[int, Run | OwnBatch]]:
        for batch in (*self.batches, *behind):
            yield from batch.read()
