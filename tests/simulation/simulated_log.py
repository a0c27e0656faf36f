"""The simulated disk: one log of batches, what of it is flushed, and the snapshot beside it.

It appends, flushes, loses power, is cleaned, and takes and loads snapshots, all in memory; what it
holds are bytes as they lie in a segment, read back by the code that reads real logs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from broker.cores.groups.kind import blocks_of
from coordinator.shard import GroupShard
from offsets.runs import Run
from offsets.section_reader import runs_of_section
from offsets.snapshot_image import BatchMark, ImageHead, ImageWriter, read_image
from protocol.records.batch import encode_batch, read_header, records_of, section_of

NO_MARK = BatchMark(0, 0)
TOPIC_ID = bytes(16)


@dataclass
class Batch:
    """Records that are appended whole or not at all."""

    first_offset: int
    end_offset: int
    data: bytes
    runs: list[tuple[int, Run]] | None = None
    """What ``data`` says, once somebody has read it."""

    def read(self) -> list[tuple[int, Run]]:
        """The runs in it with their log offsets, made of the bytes."""
        if self.runs is None:
            header = read_header(self.data)
            section = section_of(self.data, header)
            self.runs = list(runs_of_section(section, header.base_offset, header.record_count))
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
        snapshot is of no use any more.
        """
        keep_from = self.end if self.snapshot is None else self.snapshot.begin
        opened = [
            (batch, records_of(batch.data, read_header(batch.data))) for batch in self.batches[:cut]
        ]
        last = {record.key: record.offset for _, records in opened for record in records}
        cleaned: list[Batch] = []
        for batch, records in opened:
            kept = [
                record
                for record in records
                if last[record.key] == record.offset
                and (record.value is not None or not tombstones_too or record.offset >= keep_from)
            ]
            if len(kept) == len(records):
                cleaned.append(batch)
                continue
            if self.snapshot is not None and batch.end_offset > self.snapshot.begin:
                self.snapshot = None
            if kept:
                first, end = batch.first_offset, batch.end_offset
                data = encode_batch(kept, base_offset=first, last_offset=end - 1)
                cleaned.append(Batch(first, end, data))
        self.batches[:cut] = cleaned

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
            for group_id, topic, columns in image.offsets():
                shard.restore(group_id, topic, columns)
            for record_offset, run in image.groups():
                shard.replay(run, record_offset)
        for base, run in self._runs(behind):
            if base >= begin:
                shard.replay(run, base)

    def _runs(self, behind: list[Batch]) -> Iterator[tuple[int, Run]]:
        for batch in (*self.batches, *behind):
            yield from batch.read()
