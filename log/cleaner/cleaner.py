"""Cleans one log: keeps the last record of each key, at its offset.

`clean` reads the dirty part once, for the map of keys (offset_map.py). It then copies each group of
old segments into one new segment, whose files end with ``.cleaned``. The owner of the log then
replaces the old segments (clean_swap.py). Kafka's rules determine the records that are kept:

- The last record of each key is kept. A tombstone is kept for `delete.retention.ms` after
  the first cleaning that reads it. A record without a key is removed.
- An unaltered batch keeps its bytes. A batch without records is removed, with two
  exceptions: the last batch of each producer, which has the producer's sequence, and the
  last cleaned batch, which has the log end offset.
- Messages of magic 0 and 1 keep their format. The last cleaned message is kept.
- Records of aborted transactions are removed. A marker is removed `delete.retention.ms`
  after the last record of its transaction. Records at or above the start of an open
  transaction are not cleaned.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from log.cleaner import clean_batch
from log.cleaner.clean_batch import cut_records, horizon_of, messages_of, thin
from log.cleaner.clean_job import CleanDone, CleanedGroup, CleanJob
from log.cleaner.clean_plan import SegmentFacts, group_segments
from log.cleaner.clean_scan import Frame, Pace, Transactions, frames, section_of
from log.cleaner.key_reader import note_keys
from log.cleaner.offset_map import OffsetMap
from log.errors import CorruptLog
from log.files.filesystem import File, FileSystem
from log.indexes.transaction_index import aborted_in
from log.leftovers import CLEANED
from log.segment import LOG, Segment, file_name
from protocol.records.batch import CONTROL_BIT, TRANSACTIONAL_BIT
from protocol.records.corrupt import CorruptRecords
from protocol.records.section import Record

WRITE_BYTES = 1024 * 1024


class CleanedSegment(Segment):
    """A segment that the cleaner is writing. Its file names show that it must be removed after a
    crash."""

    __slots__ = ()

    def path(self, suffix: str) -> str:
        return super().path(suffix) + CLEANED


def clean(
    fs: FileSystem, job: CleanJob, emit: Callable[[CleanedGroup], None], pace: Pace | None = None
) -> CleanDone:
    """Does the work of ``job``. ``emit`` gets each group of segments as soon as the files of its
    new segment are on the disk.

    Raises CorruptLog and OSError. Groups that were emitted before the error remain valid. The next
    `remove_cleaned` removes the other ``.cleaned`` files.
    """
    remove_cleaned(fs, job.directory)
    cleaning = _Cleaning(fs, job, pace or _no_pace)
    cleaning.build_map()
    done = cleaning.done
    if done.end_offset > job.first_dirty_offset:
        groups = group_segments(
            cleaning.segments, done.end_offset, job.segment_bytes, job.segment_index_bytes
        )
        for group in groups:
            emit(CleanedGroup(group[0], group, cleaning.copy(group)))
    return done


def remove_cleaned(fs: FileSystem, directory: str) -> None:
    for name in fs.list(directory):
        if name.endswith(CLEANED):
            fs.remove(os.path.join(directory, name))


class _Cleaning:
    """The state of one cleaning job."""

    def __init__(self, fs: FileSystem, job: CleanJob, pace: Pace) -> None:
        self.fs = fs
        self.job = job
        self.pace = pace
        self.segments = [SegmentFacts(*fields) for fields in job.segments]
        self.map = OffsetMap(job.map_bytes)
        self.done = CleanDone(job.first_dirty_offset)
        # last offset of the dirty part's last batch, which is kept, even without records
        self._last_entered = -1
        self._transactions: Transactions | None = None
        self._unended: set[int] = set()
        """Ids of producers whose transaction has a copied batch, and no marker was read yet."""
        self._ends: set[int] = set()
        """Offsets of the markers whose transactions have a copied batch."""
        self._closed = {
            segment.base_offset: segment.size
            for segment in self.segments[:-1]
            if segment.base_offset < job.end_offset
        }

    def _open(self, base_offset: int) -> tuple[File, int]:
        path = os.path.join(self.job.directory, file_name(base_offset, LOG))
        return self.fs.open(path), self._closed[base_offset]

    @property
    def transactions(self) -> Transactions:
        """The transactions of the cleanable segments. The first use scans these segments."""
        if self._transactions is None:
            active = aborted_in(self.fs, self.job.directory, self.segments[-1].base_offset)
            self._transactions = Transactions.scan(
                map(self._open, self._closed),
                self.job.stable_offset,
                active,
                late_go=self.job.late_go,
            )
        return self._transactions

    # -- the map

    def build_map(self) -> None:
        """Enters the keys of the dirty part into the offset map. Stops at an open transaction, or
        when the map has reached its memory limit."""
        job = self.job
        bases = list(self._closed)
        if bases and bases[0] < job.first_dirty_offset:
            _ = self.transactions  # read now: the segments of an emitted group may be replaced
        for base, following in zip(bases, [*bases[1:], job.end_offset], strict=True):
            if following > job.first_dirty_offset and not self._enter_segment(base):
                return
        self.done.end_offset = max(job.first_dirty_offset, job.end_offset)
        self._freeze()

    def _enter_segment(self, base_offset: int) -> bool:
        """Adds a segment's keys to the map. Returns False if the map ends within the segment."""
        file, size = self._open(base_offset)
        for frame in frames(file, size, self.pace):
            if frame.last_offset < self.job.first_dirty_offset:
                continue
            if not self._enter(frame, file.path):
                self.done.end_offset = max(self.done.end_offset, frame.base_offset)
                self._freeze()
                return False
            self._last_entered = frame.last_offset
        return True

    def _enter(self, frame: Frame, path: str) -> bool:
        if frame.attributes & TRANSACTIONAL_BIT:
            first_open = self.transactions.first_open
            if first_open is not None and frame.base_offset >= first_open:
                return False
            if self.transactions.is_aborted(frame.producer_id, frame.base_offset):
                return True
        if frame.attributes & CONTROL_BIT:
            return True
        if frame.magic < 2:
            return self._enter_messages(messages_of(frame, path))
        section = section_of(frame, path)
        if not self.map.has_room(len(section), frame.record_count):
            return False
        try:
            self.map.add(section, frame.record_count, frame.base_offset)
        except CorruptRecords as error:
            raise CorruptLog(path, frame.position, error.message) from None
        return True

    def _enter_messages(self, messages: list[Record]) -> bool:
        if not self.map.has_room(clean_batch.memory_of(messages), len(messages)):
            return False
        self.map.add_records(messages)
        return True

    def _freeze(self) -> None:
        self.map.freeze()
        self.done.keys = len(self.map.latest)

    # -- the copy

    def copy(self, group: list[int]) -> int:
        """Writes the new segment of ``group`` and fsyncs its files. Returns the segment's size in
        bytes."""
        job = self.job
        cleaned = CleanedSegment(
            self.fs, job.directory, group[0], job.segment_index_bytes, create=True
        )
        buffer: list[bytes] = []
        held = 0
        for batch in self._kept_batches(group):
            buffer.append(batch)
            held += len(batch)
            if held >= WRITE_BYTES:
                self._write(cleaned, buffer)
                held = 0
        self._write(cleaned, buffer)
        cleaned.seal()
        self._write_aborted(cleaned, group)
        newest = os.path.join(job.directory, file_name(group[-1], LOG))
        self.fs.set_modified_ms(cleaned.path(LOG), self.fs.modified_ms(newest))
        cleaned.fsync(indexes=True)
        return cleaned.size

    def _write_aborted(self, cleaned: CleanedSegment, group: list[int]) -> None:
        """Writes the new segment's index of aborted transactions. The index has only transactions
        with a batch in the new segment."""
        kept = [
            entry
            for base in group
            for entry in aborted_in(self.fs, self.job.directory, base)
            if entry.last_offset in self._ends or entry.last_offset >= self.done.end_offset
        ]
        self._ends.clear()
        if kept:
            cleaned.transactions.append(kept)

    def _write(self, cleaned: CleanedSegment, buffer: list[bytes]) -> None:
        if buffer:
            data = b"".join(buffer)
            buffer.clear()
            cleaned.append(data, cleaned.base_offset, self.job.index_interval_bytes)
            self.done.bytes_written += len(data)
            self.pace(len(data))

    def _kept_batches(self, group: list[int]) -> Iterator[bytes]:
        done = self.done
        for base in group:
            file, size = self._open(base)
            done.bytes_read += size
            for frame in frames(file, size, self.pace):
                done.records_read += max(frame.record_count, 0)
                try:
                    batch = self._clean_batch(frame, file.path)
                except CorruptRecords as error:
                    raise CorruptLog(file.path, frame.position, error.message) from None
                is_last = frame.last_offset == self._last_entered
                if batch is not None:
                    yield batch
                elif is_last and frame.magic < 2:
                    yield frame.chunk[frame.start : frame.stop]
                elif is_last or self._is_last_of_producer(frame):
                    yield clean_batch.empty(frame)

    def _clean_batch(self, frame: Frame, path: str) -> bytes | None:
        job = self.job
        if frame.base_offset >= self.done.end_offset:
            return self._whole(frame)
        if frame.magic < 2:
            return self._clean_messages(frame, path)
        is_marker = bool(frame.attributes & CONTROL_BIT)
        had_records = False
        if frame.attributes & TRANSACTIONAL_BIT:
            had_records = frame.producer_id in self._unended
            (self._unended.discard if is_marker else self._unended.add)(frame.producer_id)
        if is_marker:
            if had_records:
                self._ends.add(frame.base_offset)
            return self._clean_marker(frame, path, had_records)
        if not frame.record_count or (
            frame.attributes & TRANSACTIONAL_BIT
            and self.transactions.is_aborted(frame.producer_id, frame.base_offset)
        ):
            return None
        if frame.last_offset < job.first_dirty_offset:
            return self._clean_old(frame, path)
        return self._clean_dirty(frame, path)

    def _clean_dirty(self, frame: Frame, path: str) -> bytes | None:
        base = frame.base_offset
        live = self.map.live_in(base, frame.last_offset)
        if not live:
            return None
        tombstones = self.map.tombstones_in(base, frame.last_offset)
        if len(live) == frame.record_count and not tombstones:
            return self._whole(frame)
        section = section_of(frame, path)
        if tombstones:
            return self._keep(frame, section, set(live))
        return self._keep_values(frame, section, set(live))

    def _clean_old(self, frame: Frame, path: str) -> bytes | None:
        section = section_of(frame, path)
        keys: dict[bytes, int] = {}
        note_keys(section, frame.record_count, frame.base_offset, keys)
        latest = self.map.latest
        if keys.keys().isdisjoint(latest.keys()):
            live = list(keys.values())
        else:
            live = [offset for key, offset in keys.items() if key not in latest]
        if not live:
            return None
        if len(live) == frame.record_count and min(live) >= 0:
            return self._whole(frame)
        if min(live) >= 0:
            return self._keep_values(frame, section, set(live))
        return self._keep(frame, section, {offset if offset >= 0 else ~offset for offset in live})

    def _keep_values(self, frame: Frame, section: bytes, live: set[int]) -> bytes:
        """Returns the batch with only the records at the offsets ``live``. The caller checks that
        none of these records is a tombstone."""
        batch, kept = clean_batch.thin_plain(frame, section, live)
        self.done.records_kept += kept
        return batch

    def _keep(self, frame: Frame, section: bytes, live: set[int]) -> bytes | None:
        """Returns the batch with only the records at the offsets ``live``. Expired tombstones are
        removed too. Returns None if no record remains. If a tombstone remains and the batch has no
        delete horizon, the returned batch has a new one."""
        job = self.job
        first = frame.base_offset
        kept = [
            cut
            for cut in cut_records(section, frame.record_count)
            if first + cut.offset_delta in live
        ]
        horizon_ms = horizon_of(frame)
        if horizon_ms is not None and horizon_ms <= job.now_ms:
            kept = [
                cut
                for cut in kept
                if not cut.is_tombstone or first + cut.offset_delta >= job.keep_tombstones_from
            ]
        tombstones = sum(cut.is_tombstone for cut in kept)
        if not kept:
            return None
        self.done.tombstones_kept += tombstones
        if len(kept) == frame.record_count and (not tombstones or horizon_ms is not None):
            return self._whole(frame)
        self.done.records_kept += len(kept)
        is_new = bool(tombstones) and horizon_ms is None
        return thin(frame, section, kept, self._new_horizon_ms if is_new else None)

    def _clean_messages(self, frame: Frame, path: str) -> bytes | None:
        messages = messages_of(frame, path)
        if frame.record_count < 0:
            self.done.records_read += len(messages)
        tombstones_go = frame.last_offset < self.job.first_dirty_offset
        kept = [
            message
            for message in messages
            if message.key is not None
            and self.map.is_last(message.key, message.offset)
            and not (message.value is None and tombstones_go and self._is_old(message, path))
        ]
        self.done.records_kept += len(kept)
        self.done.tombstones_kept += sum(message.value is None for message in kept)
        if len(kept) == len(messages):
            return frame.chunk[frame.start : frame.stop]
        return clean_batch.message_with(frame, kept) if kept else None

    def _is_old(self, message: Record, path: str) -> bool:
        """Returns whether a tombstone has expired and is below `CleanJob.keep_tombstones_from`."""
        job = self.job
        time_ms = message.timestamp if message.timestamp >= 0 else self.fs.modified_ms(path)
        return (
            time_ms + job.delete_retention_ms <= job.now_ms
            and message.offset < job.keep_tombstones_from
        )

    @property
    def _new_horizon_ms(self) -> int:
        return self.job.now_ms + self.job.delete_retention_ms

    def _clean_marker(self, frame: Frame, path: str, had_records: bool) -> bytes | None:
        """Cleans a control batch. The marker is kept while its transaction has records
        (``had_records``), and then for `delete.retention.ms`. Returns None if the marker is
        removed."""
        if not frame.record_count:
            return None
        if had_records or not frame.attributes & TRANSACTIONAL_BIT:
            return self._whole(frame)
        horizon_ms = horizon_of(frame)
        if horizon_ms is None:
            section = section_of(frame, path)
            self.done.records_kept += frame.record_count
            return thin(
                frame, section, cut_records(section, frame.record_count), self._new_horizon_ms
            )
        if horizon_ms > self.job.now_ms or frame.base_offset >= self.job.keep_tombstones_from:
            return self._whole(frame)
        return None

    def _whole(self, frame: Frame) -> bytes:
        self.done.records_kept += max(frame.record_count, 0)
        return frame.chunk[frame.start : frame.stop]

    def _is_last_of_producer(self, frame: Frame) -> bool:
        """Returns True for the producer's last data batch. If the log has no data batch of the
        producer, returns True for the marker with the producer's last epoch."""
        if frame.producer_id < 0:
            return False
        known = self.job.producers.get(frame.producer_id)
        if known is None:
            return False
        last_data_offset, epoch = known
        if last_data_offset >= 0:
            return frame.last_offset == last_data_offset
        return bool(frame.attributes & CONTROL_BIT) and frame.producer_epoch == epoch


def _no_pace(count: int) -> None: ...
