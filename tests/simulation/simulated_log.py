"""The simulated disk: one log of batches, what of it is flushed, and the snapshot beside it.

It appends, flushes, loses power, is cleaned, and takes and loads snapshots, all in memory; what it
holds are bytes as they lie in a segment, read back by the code that reads real logs.
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
    """Records that are appended whole or not at all."""

    first_offset: int
    end_offset: int
    data: bytes
    runs: list[tuple[int, Run | OwnBatch]] | None = None
    """What ``data`` says, once somebody has read it."""

    def read(self) -> list[tuple[int, Run | OwnBatch]]:
        """The runs in it with their log offsets, made of the bytes.

        A reader leaves out commits after a marker of a higher epoch. No call here makes one, so
        that each batch is read by itself, once.
        """
        if self.runs is None:
            reader = GroupReader(_SHARD, 0, 1)
            self.runs = list(reader.runs(self.data, read_header(self.data)))
        return self.runs


@dataclass
class Snapshot:
    """Its bytes, from where the log is replayed over it, and what it has seen of the log."""

    data: bytes
    begin: int
    end: int


class SimulatedLog:
    """A log whose owner alone appends; ``flushes`` says that it is stable when flushed."""

    def __init__(self, flushes: bool) -> None:
        self.flushes = flushes
        self.batches: list[Batch] = []
        self.end = 0
        """Offset behind the last record appended."""
        self.flushed = 0
        """All below is on the disk."""
        self.snapshot: Snapshot | None = None

    @property
    def stable(self) -> int:
        """All below may be told."""
        return self.flushed if self.flushes else self.end

    @property
    def data(self) -> bytes:
        """The whole log."""
        return b"".join(batch.data for batch in self.batches)

    def append(self, batches: list[Batch]) -> None:
        """Put batches behind the last one."""
        for batch in batches:
            assert batch.first_offset == self.end
            self.batches.append(batch)
            self.end = batch.end_offset

    def flush(self) -> None:
        """Bring all to the disk."""
        self.flushed = self.end

    def unflushed(self) -> int:
        """How many batches power may take."""
        return sum(batch.end_offset > self.flushed for batch in self.batches)

    def lose(self, count: int) -> None:
        """Power is lost, and with it the last ``count`` batches."""
        assert count <= self.unflushed()
        if count:
            del self.batches[-count:]
            self.end = max(self.batches[-1].end_offset if self.batches else 0, self.flushed)

    def clean(self, cut: int, tombstones_too: bool) -> None:
        """Do what a cleaner does to the first ``cut`` batches: of each key the last record stays.

        A batch that loses all its records goes. ``tombstones_too``: these go as well, but for those
        that the snapshot does not know of. Whose records go that came behind the beginning of the
        snapshot is of no use any more. What was aborted goes, markers stay, and the beginning of a
        transaction that has not ended is the end of the work.
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
        """Of each batch whether it was committed; None while its transaction has not ended."""
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
        """Refuse a snapshot that is ahead of the log, as a start does."""
        if self.snapshot is not None and self.snapshot.end > self.end:
            self.snapshot = None

    def replay(self, shard: GroupShard, behind: list[Batch], with_snapshot: bool) -> None:
        """Load ``shard`` with the log and what is ``behind`` it, or the snapshot and the tail."""
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
