"""Snapshots of shards: the file ``groups.image`` in each partition's directory.

This module decides when to write a snapshot, writes it, and checks whether a snapshot is valid. The
event loop encodes a snapshot in slices while the shard serves calls; a thread writes it. A snapshot
is deleted before the first append if it is damaged, belongs to another log, or is ahead of the log.
This costs time at the load, but no data.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from heapq import nlargest
from typing import Any

import structlog

from broker.cores.core import Kind, SnapshotForm
from broker.cores.hosted_shard import HostedShard, Phase
from broker.loop.background import repeat
from broker.loop.slices import Slicer, Slices
from log.files.filesystem import File, read_whole
from log.partition_log import PartitionLog
from offsets.columns_image import BadImage
from offsets.record_values import UnwritableRun
from offsets.snapshot_image import (
    BatchMark,
    Image,
    ImageHead,
    ImageWriter,
    read_image,
)
from protocol.records.corrupt import CorruptRecords
from protocol.records.stored import read_stored

logger = structlog.get_logger(__name__)

NEEDED_BY_NONE = 2**63 - 1

SLICE_NS = 2_000_000
"""The maximum duration of one slice of encoding, in nanoseconds."""
POLL_S = 0.05
BYTES_DUE = 256 << 10
"""A snapshot is due only when at least this many bytes were appended after the last snapshot. If
the last snapshot is larger, at least as many bytes as it contains must have been appended.

256 KiB are about 6,000 offsets, which are replayed in about 5 ms. Unchanged entries are not encoded
again, so that a snapshot costs the event loop less time than it saves at the next start.
"""
BYTES_DUE_AT_STOP = 64 << 10
PAUSE_PER_COST = 12
AT_ONCE = 16
ENCODED_AT_ONCE = 4
CLEANED = 1 << 62
RETRY_S = 60.0
PENDING_BYTES = 1 << 20
"""When more than this number of bytes of a snapshot is encoded, the bytes are written to its file
before more blocks are encoded."""


class Snapshots:
    """The snapshots of all shards of one kind. Only the event loop's thread may use this class,
    except for the methods whose docstrings permit any thread."""

    def __init__(
        self,
        kind: Kind[Any],
        topic_id: bytes,
        cleaned_to: Callable[[int], int],
        slicer: Slicer,
    ) -> None:
        assert kind.snapshot is not None
        self.form: SnapshotForm[Any] = kind.snapshot
        self._things = kind.things
        self.topic_id = topic_id
        self._slicer = slicer
        self._time = slicer.time
        self._cleaned_to = cleaned_to
        """A function that returns, for a partition, the offset up to which the log cleaner has
        compacted the log."""
        self.written = 0
        self._begin: dict[int, int] = {}
        """By partition: the log offset from which a load replays the log after a snapshot."""
        self._bytes: dict[int, int] = {}
        """By partition: the size of the newest snapshot in bytes."""
        self._place: dict[int, tuple[int, int]] = {}
        """By partition: the place from which a load replays the log after it has read the newest
        snapshot. A place is the base offset of a segment and a byte position in this segment."""
        self._cost_s = 0.0
        """The total time in seconds for which snapshots have blocked the event loop."""
        self._pause_s = 0.0
        """The pause in seconds before the next check for due snapshots."""
        self._encoding = asyncio.Semaphore(ENCODED_AT_ONCE)
        """Limits the number of snapshots that are encoded at the same time, because each of them
        uses a slice in every turn."""
        self._not_before: dict[int, float] = {}
        self._under_way: set[int] = set()
        self._closing = False

    def oldest_needed(self, partition: int) -> int:
        """Returns the log offset from which a load replays the log, after it has read the newest
        snapshot; NEEDED_BY_NONE without a snapshot. Tombstones at or after this offset must stay in
        the log."""
        return self._begin.get(partition, NEEDED_BY_NONE)

    # -- reading

    def read(self, log: PartitionLog) -> Image | None:
        """Returns the snapshot of ``log``; None without a valid snapshot. May be called in any
        thread.

        Deletes a snapshot that is damaged, belongs to another log, or is ahead of the log.
        """
        path = self._path(log)
        for known in (self._begin, self._bytes, self._place):
            known.pop(log.partition, None)  # the entry is from an earlier leadership
        if not log.fs.exists(path):
            return None
        try:
            image = read_image(read_whole(log.fs, path))
            self._check(image, log)
        except BadImage as error:
            self.refuse(log, str(error))
            return None
        self._begin[log.partition] = image.head.begin_offset
        self._bytes[log.partition] = image.size_bytes
        return image

    def _check(self, image: Image, log: PartitionLog) -> None:
        head, end = image.head, image.end
        if head.topic_id != self.topic_id:
            raise BadImage(
                f"the snapshot belongs to another topic, with topic id {head.topic_id.hex()}"
            )
        if head.partition != log.partition:
            raise BadImage(f"the snapshot belongs to another partition, {head.partition}")
        if head.log_start_offset != log.log_start_offset:
            raise BadImage(
                f"the log start offset has changed from {head.log_start_offset} to"
                f" {log.log_start_offset}"
            )
        if end.end_offset > log.log_end_offset:
            raise BadImage(
                f"the snapshot ends at offset {end.end_offset}, after the log end offset"
                f" {log.log_end_offset}"
            )
        for offset, mark in ((head.begin_offset, head.begin_mark), (end.end_offset, end.end_mark)):
            if mark_below(log, offset) != mark:
                raise BadImage(f"the batch before offset {offset} has changed")

    def refuse(self, log: PartitionLog, reason: str) -> None:
        """Deletes an invalid snapshot. May be called in any thread. Raises OSError."""
        self._begin.pop(log.partition, None)
        logger.warning(
            f"snapshot of {self._things} not valid, loading the whole log",
            partition=log.partition,
            reason=reason,
        )
        log.fs.remove(self._path(log))
        log.fs.fsync_directory(log.directory)

    # -- writing

    async def run(
        self, hosted_shards: Sequence[HostedShard[Any]], busy: Callable[[], bool]
    ) -> None:
        """Writes due snapshots until `write_all` is called or the task is cancelled. Shards with
        the most bytes to replay come first.

        Writes no snapshot while ``busy`` returns True. Several snapshots are written at the same
        time, since each waits for the disk. Pauses limit the snapshots to one twelfth of the event
        loop's time.
        """
        self._pause_s = POLL_S
        look = partial(self._write_due, hosted_shards, busy)
        await repeat(self._time, lambda: self._pause_s, look, _look_failed)

    async def _write_due(
        self, hosted_shards: Sequence[HostedShard[Any]], busy: Callable[[], bool]
    ) -> None:
        self._pause_s = POLL_S
        if self._closing or busy():
            return  # parked calls and first replies have priority
        due = [hosted for hosted in hosted_shards if self._is_due(hosted, BYTES_DUE)]
        if due:
            began_s, before_s = self._time.monotonic_s(), self._cost_s
            heaviest = nlargest(AT_ONCE, due, key=self._bytes_missed)
            await asyncio.gather(*map(self.write, heaviest))
            passed_s = self._time.monotonic_s() - began_s
            rest_s = PAUSE_PER_COST * (self._cost_s - before_s) - passed_s
            self._pause_s = max(POLL_S, rest_s)

    async def write_all(self, hosted_shards: Sequence[HostedShard[Any]]) -> None:
        """Writes a snapshot of each shard whose log has grown enough, so that the next start loads
        this shard faster. Called when the broker stops. Then `run` writes no more snapshots."""
        self._closing = True
        while self._under_way:
            await self._time.sleep(0.001)
        waiting = [hosted for hosted in hosted_shards if self._is_due(hosted, BYTES_DUE_AT_STOP)]
        for start in range(0, len(waiting), AT_ONCE):
            await asyncio.gather(*map(self.write, waiting[start : start + AT_ONCE]))

    def _is_due(self, hosted: HostedShard[Any], bytes_due: int) -> bool:
        if bytes_due == BYTES_DUE:
            bytes_due = max(bytes_due, self._bytes.get(hosted.index, 0))
        return self._bytes_missed(hosted) >= bytes_due

    def _bytes_missed(self, hosted: HostedShard[Any]) -> int:
        """Returns the number of bytes of the log that a load would have to replay; 0 if no snapshot
        can be written now."""
        partition, log = hosted.index, hosted.log
        begin = self._begin.get(partition, log.log_start_offset)
        if hosted.phase is not Phase.ACTIVE or hosted.appended <= begin:
            return 0
        if partition in self._under_way or self._waits(partition):
            return 0
        if hosted.pass_over is not None and hosted.pass_over.met:
            return CLEANED  # the next load must not read the skipped records again
        if self._cleaned_to(partition) > begin:
            return CLEANED  # the log has gaps after the snapshot, which makes the snapshot useless
        base_offset, position = self._place.get(partition, (-1, 0))
        if base_offset == log.active.base_offset:
            return log.active.size - position
        return _bytes_from(log, begin)

    def _waits(self, partition: int) -> bool:
        """Returns True if a snapshot of the partition failed less than `RETRY_S` ago."""
        return self._not_before.get(partition, 0.0) > self._time.monotonic_s()

    async def cover(self, hosted: HostedShard[Any], offset: int) -> None:
        """If the shard has a snapshot that begins at or before ``offset``, replaces it by a newer
        snapshot.

        The log cleaner calls this method before it compacts the log up to ``offset``, because the
        compaction makes the older snapshot invalid.
        """
        while hosted.index in self._under_way:
            await self._time.sleep(0.001)
        old = self.oldest_needed(hosted.index) <= offset < hosted.appended
        if old and hosted.phase is Phase.ACTIVE and not self._closing:
            await self.write(hosted)

    async def write(self, hosted: HostedShard[Any]) -> bool:
        """Writes a snapshot; logs a failure. Returns False if no snapshot was written."""
        core, partition = hosted.core, hosted.index
        if partition in self._under_way:
            return False  # another snapshot has begun since the check
        self._under_way.add(partition)
        try:
            done = await self._write(hosted, core)
        except (OSError, UnwritableRun, BadImage) as error:
            self._not_before[partition] = self._time.monotonic_s() + RETRY_S
            logger.warning(
                f"snapshot of {self._things} can't be written",
                partition=partition,
                error=str(error),
            )
            return False
        finally:
            self._under_way.discard(partition)
        if done:
            self.written += 1
        return done

    async def _write(self, hosted: HostedShard[Any], core: Any) -> bool:
        log, partition = hosted.log, hosted.index
        output, writer = _Output(log, self._path(log)), ImageWriter()
        async with self._encoding:
            if not _same(hosted, core):
                return False
            begin = hosted.appended
            place = log.active.base_offset, log.active.size
            mark = mark_below(log, begin)
            if mark is None:
                self._not_before[partition] = self._time.monotonic_s() + 20 * POLL_S
                return False  # no batch ends at this offset; the next append changes that
            head = ImageHead(self.topic_id, partition, log.log_start_offset, begin, mark)
            slices = self._slicer.work("snapshot", SLICE_NS)
            blocks = self.form.blocks(core, writer, head, lambda: slices.over)
            try:
                if not await self._encode(hosted, core, blocks, output, slices):
                    return False
            finally:
                self._cost_s += slices.end()
        accepted = hosted.accepted
        while hosted.appended < accepted:
            await self._time.sleep(0)
            if not _same(hosted, core):
                return False
        end_mark = mark_below(log, hosted.appended)
        if end_mark is None:
            return False
        output.add(writer.end(hosted.appended, end_mark))
        await self._time.in_thread(output.finish)
        self._begin[partition], self._bytes[partition] = begin, output.size
        self._place[partition] = place
        if hosted.pass_over is not None and hosted.pass_over.met:
            hosted.pass_over.met = False
            logger.info(
                "snapshot written after the skipped records",
                advice="remove offsets.load.skip.records now",
                partition=partition,
            )
        return True

    def _path(self, log: PartitionLog) -> str:
        return os.path.join(log.directory, self.form.file_name)

    async def _encode(
        self,
        hosted: HostedShard[Any],
        core: Any,
        blocks: Iterator[bytes],
        output: _Output,
        slices: Slices,
    ) -> bool:
        """Adds all blocks to ``output``, in slices. Returns False if the shard was unloaded before
        the last block was added."""
        for block in blocks:
            output.add(block)
            if output.pending_bytes > PENDING_BYTES:
                await slices.beside(self._time.in_thread(output.write))
            elif slices.over:
                await slices.pause()
            else:
                continue
            if not _same(hosted, core):
                return False
        return True


class _Output:
    """The temporary file of a snapshot. It replaces the previous snapshot when it is complete."""

    def __init__(self, log: PartitionLog, path: str) -> None:
        self._log = log
        self._path = path
        self._temporary = self._path + ".tmp"
        self._file: File | None = None
        self._pending: list[bytes] = []
        self.pending_bytes = 0
        self.size = 0
        """The size in bytes of all blocks, written or not."""

    def add(self, block: bytes) -> None:
        """Adds a block, which is written later."""
        self._pending.append(block)
        self.pending_bytes += len(block)
        self.size += len(block)

    def write(self) -> File:
        """Writes the added blocks. May be called in any thread, like `finish`. Raises OSError."""
        fs = self._log.fs
        if self._file is None:
            fs.remove(self._temporary)
            self._file = fs.open(self._temporary, create=True)
        data = b"".join(self._pending)
        self._file.write(self.size - len(data), data)
        self._pending, self.pending_bytes = [], 0
        return self._file

    def finish(self) -> None:
        """Writes the remaining blocks, and replaces the previous snapshot."""
        self.write().fsync()
        self._log.fs.rename(self._temporary, self._path)
        self._log.fs.fsync_directory(self._log.directory)


def mark_below(log: PartitionLog, offset: int) -> BatchMark | None:
    """Returns the mark of the batch that ends just before ``offset``. Returns None if no batch ends
    there, or if the log was compacted."""
    if not log.log_start_offset < offset <= log.log_end_offset:
        return None
    try:
        batch = read_stored(log.read(offset - 1, 1).data)
    except CorruptRecords:
        return None
    if batch.last_offset != offset - 1:
        return None
    return BatchMark(batch.base_offset, batch.crc, batch.partition_leader_epoch)


def _bytes_from(log: PartitionLog, offset: int) -> int:
    """Returns the size in bytes of the batches from ``offset`` on."""
    segment, *later = log.segments.from_offset(offset)
    place = segment.locate(offset)
    left = 0 if place is None else segment.size - place.position
    return left + sum(each.size for each in later)


def _look_failed(error: Exception) -> None:
    logger.error("snapshots of groups failed: internal error", exc_info=error)


def _same(hosted: HostedShard[Any], core: Any) -> bool:
    """Returns True if the shard is active and ``core`` is still its core. If the shard was loaded
    again, ``core`` may have had changes that are not in the log."""
    return hosted.core is core and hosted.phase is Phase.ACTIVE
