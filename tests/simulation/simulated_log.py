"""The simulated disk: one log of batches, its flushed part, and a snapshot.

It appends, flushes, loses power, is cleaned, and takes and loads snapshots, all in memory; its
content has the bytes of a segment, read by the code that reads real logs.
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
    """Records that are appended completely or not at all."""

    first_offset: int
    end_offset: int
    data: bytes
    runs: list[tuple[int, Run | OwnBatch]] | None = None
    """The decoded ``data``, after the first read."""

    def read(self) -> list[tuple[int, Run | OwnBatch]]:
        """The runs of the batch with their log offsets, decoded from the bytes.

        A reader omits commits after a marker of a higher epoch. No call here makes one, so each
        batch is read by itself, once.
        """
        if self.runs is None:
            reader = GroupReader(_SHARD, 0, 1)
            self.runs = list(reader.runs(self.data, read_header(self.data)))
        return self.runs


@dataclass
class Snapshot:
    """Its bytes, the offset from which the log is replayed, and what it has seen of the log."""

    data: bytes
    begin: int
    end: int


class SimulatedLog:
    """A log with one writer; with ``flushes`` a record is stable when flushed."""

    def __init__(self, flushes: bool) -> None:
        self.flushes = flushes
        self.batches: list[Batch] = []
        self.end = 0
        """Offset after the last appended record."""
        self.flushed = 0
        """Records below are on the disk."""
        self.snapshot: Snapshot | None = None

    @property
    def stable(self) -> int:
        """Records below may be acknowledged."""
        return self.flushed if self.flushes else self.end

    @property
    def data(self) -> bytes:
        """The bytes of the whole log."""
        return b"".join(batch.data for batch in self.batches)

    def append(self, batches: list[Batch]) -> None:
        """Append batches."""
        for batch in batches:
            assert batch.first_offset == self.end
            self.batches.append(batch)
            self.end = batch.end_offset

    def flush(self) -> None:
        """Flush everything to the disk."""
        self.flushed = self.end

    def unflushed(self) -> int:
        """The number of batches that a power failure may take."""
        return sum(batch.end_offset > self.flushed for batch in self.batches)

    def lose(self, count: int) -> None:
        """A power failure takes the last ``count`` batches."""
        assert count <= self.unflushed()
        if count:
            del self.batches[-count:]
            self.end = max(self.batches[-1].end_offset if self.batches else 0, self.flushed)

    def clean(self, cut: int, tombstones_too: bool) -> None:
        """Clean the first ``cut`` batches: of each key the last record stays.

        A batch without records is removed. With ``tombstones_too`` tombstones are removed as
        well, except those that the snapshot does not know. Aborted records are removed, markers
        stay, and the cleaning ends at the start of an open transaction.
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
        """Whether each batch was committed; None while its transaction is open."""
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
        """Write a snapshot of ``shard``, all of whose records are appended."""
        writer = ImageWriter()
        head = ImageHead(TOPIC_ID, 0, 0, self.end, NO_MARK)
        blocks = list(blocks_of(shard, writer, head, lambda: False))
        blocks.append(writer.end(self.end, NO_MARK))
        self.snapshot = Snapshot(b"".join(blocks), self.end, self.end)

    def opened(self) -> None:
        """Reject a snapshot that is ahead of the log, as a start does."""
        if self.snapshot is not None and self.snapshot.end > self.end:
            self.snapshot = None

    def replay(self, shard: GroupShard, behind: list[Batch], with_snapshot: bool) -> None:
        """Load ``shard`` from the log and the batches ``behind`` it, or from the snapshot and
        the rest."""
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
        for base, run in self._runs(behind):
            if base >= begin:
                shard.replay(run, base)

    def _runs(self, behind: list[Batch]) -> Iterator[tuple[int, Run | OwnBatch]]:
        for batch in (*self.batches, *behind):
            yield from batch.read()
