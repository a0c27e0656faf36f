"""The log of one partition. It appends, rolls and flushes, and rejects appends after a failed
write.

One thread appends, rolls, deletes and closes. `read`, `scan` and `flush` may run in other threads.
This is safe because the list of segments is replaced, never changed, and a file stays open while it
is referenced.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from threading import Lock

from log import lookup, produce, replicated, retention
from log.batch_scan import CHUNK_BYTES
from log.config import LOG_APPEND, LONG_MAX, LogConfig
from log.errors import LogBusy, LogPoisoned, OffsetOutOfRange
from log.files.filesystem import FileSystem
from log.fold import fold, remove_snapshots, write_image
from log.indexes.transaction_index import TXN_INDEX, Aborted
from log.leader_epochs import LeaderEpochs
from log.leftovers import base_offsets, deleted, snapshot_offsets
from log.markers import with_markers
from log.missed import Expected
from log.producers.producer_snapshot import ProducerImage
from log.producers.producer_state import ProducerStates
from log.read_committed import end_of_bytes, overlapping
from log.recovery import RecoveryReport, open_segments
from log.segment import Segment
from log.segments import Chance, Segments
from log.values import Appended, AppendInfo, Ended, Marker, ReadInfo, TimestampOffset
from protocol.buffer import Buffer
from protocol.records.batch import (
    ABORT,
    COMMIT,
    CREATE_TIME,
    LEADER_EPOCH_MAX,
    LOG_APPEND_TIME,
    MAGIC,
    BatchHeader,
)
from protocol.records.markers import encode_end_transaction

PROBE_BYTES = 4096
NOTHING_EXPECTED = Expected()

TO_HIGH_WATERMARK = -1
"""The offset in a DeleteRecords request that means the high watermark: all records below it are
deleted."""


def no_jitter(below: int) -> int:  # noqa: ARG001
    """The default `Chance`. It returns 0 instead of a random number, so that segments are rolled
    exactly when they reach `segment.ms`, without the jitter of `segment.jitter.ms`."""
    return 0


class PartitionLog:
    """The batches of one partition, from ``log_start_offset`` to ``log_end_offset``."""

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        topic: str,
        partition: int,
        config: LogConfig,
        segments: list[Segment],
        chance: Chance = no_jitter,
    ) -> None:
        self.fs = fs
        self.directory = directory
        self.topic = topic
        self.partition = partition
        self.config = config
        self.segments = Segments(fs, directory, segments, chance)
        self.log_start_offset = segments[0].base_offset
        """The first offset that consumers can read. It is at or above the first segment's base
        offset."""
        self.log_end_offset = segments[-1].base_offset
        """The offset of the next record."""
        self.recovery_point = 0
        """The offset below which all records and their indexes are on the disk. It is at or below
        the log end offset."""
        self.committed_offset = LONG_MAX
        """The high watermark in a cluster. Every new leader keeps the records below this offset.

        Records at or above this offset may still be truncated. The cleaner therefore does not
        remove a record if the newer record of the same key is at or above this offset.
        """
        self._cuts = self._cuts_synced = 0
        """``_cuts`` is the number of changes that removed records or leader epochs.
        ``_cuts_synced`` is the number of these changes that are fsynced."""
        self.truncations = 0
        """The number of truncations, including truncations to an empty log."""
        self.recovery = RecoveryReport()
        self.producers = ProducerStates()
        self.image: ProducerImage | None = None
        """The producer states at the last roll, if they are so many that the log's owner must still
        encode their snapshot in slices; otherwise None. The owner passes the result to
        `write_image`."""
        self.epochs = LeaderEpochs(fs, directory)
        self.poisoned: str | None = None
        """The reason why appends are rejected; None if appends are accepted."""
        self.unreadable: str | None = None
        """The reason why the coordinator that owns the log can't use it; None if it can. While
        there is a reason, the log rejects appends and deletions until a restart."""
        self.failed_for_good = False
        """True after a failed flush, or after a failed truncation that followed a failed write.
        While it is True, no probe write is tried."""
        self._final_reason: str | None = None
        self._flushing = Lock()
        self._imaging = Lock()
        self._rolled_since = False

    @classmethod
    def open(
        cls,
        fs: FileSystem,
        directory: str,
        topic: str,
        partition: int,
        config: LogConfig,
        *,
        expected: Expected = NOTHING_EXPECTED,
        clean: bool = False,
        truncate: bool = False,
        missing: bool = False,
        chance: Chance = no_jitter,
    ) -> PartitionLog:
        """Opens the log in ``directory``, which is created if it is missing.

        ``expected`` is from the data directory's checkpoints. ``clean`` is True if the last process
        shut down cleanly. Damage that a crash can't explain raises CorruptLog; with ``truncate``
        the log is truncated at the damage instead. Missing files raise MissingFiles, unless
        ``missing`` is set. The log's ``recovery`` reports what was found. ``chance`` returns the
        random values for `segment.jitter.ms`. Raises CorruptLog and OSError.
        """
        fs.make_directory(directory)
        segments, end_offset, report = open_segments(
            fs,
            directory,
            config,
            expected=expected,
            clean=clean,
            truncate=truncate,
            missing=missing,
        )
        log = cls(fs, directory, topic, partition, config, segments, chance)
        log.recovery = report
        log.log_start_offset = max(expected.log_start_offset, segments[0].base_offset)
        log.log_end_offset = end_offset
        log.recovery_point = min(expected.recovery_point, end_offset)
        log.segments.pending_deletes = deleted(fs, directory)
        for base_offset in base_offsets(fs, directory, TXN_INDEX):
            if not log.segments.at(base_offset).transactions.load():
                report.reread(base_offset)
        if not clean or not log.active.size or report.first_reread is not None:
            # The directory entries were created just now, or by a process that did not shut down.
            log.segments.unsynced_directories |= dict.fromkeys(
                (directory, os.path.dirname(directory))
            )
        log.segments.prepare(log.active, config)
        log._fold()
        log._flush_opened()
        return log

    @property
    def active(self) -> Segment:
        """Returns the last segment, the only one to which records are appended."""
        return self.segments.active

    def _fold(self) -> None:
        """Rebuilds the producer states, the leader epochs and the transactions from the headers of
        the log's batches."""
        known, reread = self.recovery.epochs_without_producers, self.recovery.first_reread
        self.active.transactions.truncate_to(self.log_end_offset)
        fold(
            self.segments,
            self.producers,
            self.epochs,
            known,
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            from_offset=self.log_end_offset if reread is None else reread,
        )
        known.clear()  # it is about the segments at the opening, without later appends
        self.recovery.first_reread = None

    def _flush_opened(self) -> None:
        """Flushes the opened log if `flush_due`, before consumers read its records. The previous
        process may have been killed before it flushed them. Raises OSError."""
        if self.flush_due:
            try:
                self.flush()
            except LogPoisoned as error:
                raise OSError(error.reason) from error

    # -- appending

    def append(
        self,
        batches: Buffer,
        leader_epoch: int,
        now_ms: int,
        headers: list[BatchHeader] | None = None,
        from_zero: bool = False,
    ) -> AppendInfo:
        """Appends a producer's validated batches (magic 2, one after another) with one write.

        ``batches`` may also be a message set of magic 0 or 1 whose offsets count from 0, as
        `analyse` returns it. The batches get the next offsets and ``leader_epoch``. With log append
        time they also get the wall time ``now_ms``. A batch that its producer has already sent is
        not appended again.

        ``headers`` are the parsed headers for magic 2, if the caller has them; this method sets
        their offsets. With ``from_zero`` a producer that is unknown to this log must begin with
        sequence number 0.

        Raises AppendRefused, with the log unchanged, and LogPoisoned.
        """
        if self.poisoned is not None:
            raise LogPoisoned(self.poisoned, final=self.failed_for_good)
        first_offset = self.log_end_offset
        config = self.config
        stamp_ms = now_ms if config.message_timestamp_type == LOG_APPEND else None
        producers = self.producers
        placed = produce.place(
            batches, first_offset, leader_epoch, stamp_ms, config, producers, headers, from_zero
        )
        if isinstance(placed, Appended):
            return AppendInfo(
                placed.first_offset,
                placed.last_offset,
                -1 if stamp_ms is None else placed.timestamp_ms,
                self.log_start_offset,
                duplicate=True,
            )
        if placed.headers:
            if leader_epoch > self.epochs.latest:
                self._assign_epoch(leader_epoch, first_offset)
            self._write(placed.buffer, placed.last_offset, placed.max_timestamp_ms, now_ms)
        for header in placed.headers:
            if header.producer_id >= 0:
                producers.note(header)
        return AppendInfo(
            first_offset,
            placed.last_offset,
            -1 if stamp_ms is None else now_ms,
            self.log_start_offset,
        )

    def append_marker(self, marker: Marker, leader_epoch: int, now_ms: int) -> AppendInfo:
        """Appends a producer's transaction marker, even if the producer has no open transaction in
        this log.

        Raises AppendRefused, with the log unchanged, and LogPoisoned.
        """
        if self.poisoned is not None:
            raise LogPoisoned(self.poisoned, final=self.failed_for_good)
        producer_id, epoch, coordinator_epoch, committed, rules = marker
        self.producers.check_marker(producer_id, epoch, coordinator_epoch, rules)
        offset = self.log_end_offset
        stamped = self.config.message_timestamp_type == LOG_APPEND
        batch = encode_end_transaction(
            COMMIT if committed else ABORT,
            base_offset=offset,
            timestamp=now_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
            coordinator_epoch=coordinator_epoch,
            leader_epoch=leader_epoch,
            timestamp_type=LOG_APPEND_TIME if stamped else CREATE_TIME,
        )
        if leader_epoch > self.epochs.latest:
            self._assign_epoch(leader_epoch, offset)
        ended = Ended(marker, offset, now_ms)
        aborted = () if committed else self.producers.aborted_by((ended,))
        self._write(batch, offset, now_ms, now_ms, aborted)
        self.producers.end(ended)
        return AppendInfo(offset, offset, -1, self.log_start_offset)

    def append_encoded(
        self,
        buffer: Buffer,
        first_offset: int,
        last_offset: int,
        max_timestamp_ms: int,
        headers: Sequence[BatchHeader] = (),
    ) -> None:
        """Appends batches that already have the offsets ``first_offset`` to ``last_offset``, with
        one write.

        ``headers`` are the headers of those batches in ``buffer`` that have a producer id:
        transactional batches and markers. Raises LogPoisoned. Raises ValueError if ``first_offset``
        is not the log end offset.
        """
        if self.poisoned is not None:
            raise LogPoisoned(self.poisoned, final=self.failed_for_good)
        if first_offset != self.log_end_offset:
            raise ValueError(
                f"{self.directory} ends at offset {self.log_end_offset}, but the batches"
                f" to append begin at {first_offset}."
            )
        if not headers:
            self._write(buffer, last_offset, max_timestamp_ms, max_timestamp_ms)
            return
        producers = self.producers
        batches = with_markers(buffer, headers)
        aborted = producers.aborted_by(batches)
        self._write(buffer, last_offset, max_timestamp_ms, max_timestamp_ms, aborted)
        for batch in batches:
            if isinstance(batch, Ended):
                producers.end(batch)
            else:
                producers.note(batch)

    def append_replicated(self, batches: Buffer, now_ms: int) -> int:
        """Appends batches from a Fetch response of the leader, with unchanged bytes. The Fetch must
        have requested this log's end offset.

        Returns the number of appended bytes. An incomplete last batch is not appended. One call
        appends a limited number of batches; the caller repeats it for the remaining bytes. Raises
        CorruptRecords, with the log unchanged, and LogPoisoned.
        """
        if self.poisoned is not None:
            raise LogPoisoned(self.poisoned, final=self.failed_for_good)
        found = replicated.pieces(
            batches, self.log_end_offset, self.epochs.latest, self.config.segment_bytes
        )
        for piece in found:
            self._append_piece(piece, now_ms)
        return sum([len(piece.buffer) for piece in found])

    def _append_piece(self, piece: replicated.Piece, now_ms: int) -> None:
        producers = self.producers
        aborted = producers.aborted_by(
            [batch for batch in piece.producers if isinstance(batch, Ended) or not batch.is_control]
        )
        known = list(self.epochs.entries) if piece.epochs else []
        try:
            for epoch, offset in piece.epochs:
                self._assign_epoch(epoch, offset)
            self._write(piece.buffer, piece.last_offset, piece.max_timestamp_ms, now_ms, aborted)
        except LogPoisoned:
            # otherwise the retried batches would seem to begin the epochs again
            if piece.epochs:
                self.epochs.take_back(known)
            raise
        for batch in piece.producers:
            if isinstance(batch, Ended):
                producers.end(batch)
            elif batch.is_control:
                producers.note_epoch(batch.producer_id, batch.producer_epoch)
            else:
                producers.note(batch)

    def drop_empty_epochs(self) -> None:
        """Removes the leader epochs that begin at the log end offset: the log has no batch of these
        epochs, and the leader may not know them. The caller must truncate the log first, and must
        call `sync_cuts` afterwards, so that the truncation and the removal survive a power loss.
        Raises LogPoisoned."""
        try:
            if self.epochs.truncate_from_end(self.log_end_offset, durable=False):
                self._note_cut()
        except OSError as error:
            raise self._poison(error) from error

    def start_epoch(self, epoch: int) -> None:
        """Begins leader epoch ``epoch`` at the log end offset (KIP-101), before the first batch
        with this epoch is appended. Raises LogPoisoned.

        A follower that has further records of an older epoch then learns from the leader's epochs
        to which offset it must truncate its log.
        """
        if epoch > self.epochs.latest and self.config.message_magic == MAGIC:
            self._assign_epoch(epoch, self.log_end_offset)

    def _write(
        self,
        buffer: Buffer,
        last_offset: int,
        max_timestamp_ms: int,
        now_ms: int,
        aborted: Sequence[Aborted] = (),
    ) -> None:
        """Appends bytes to the active segment, or to a new segment if the active segment is full.

        The index entries of aborted transactions are written before the bytes. A marker without its
        index entry would expose the aborted records to consumers. An index entry without its marker
        is harmless: it is dropped when the log is opened.
        """
        segment = self.segments.active
        config = self.config
        try:
            if segment.size:
                if segment.roll_due(config, len(buffer), last_offset, max_timestamp_ms, now_ms):
                    segment = self.roll()
            elif segment.created_ms < 0:
                segment.created_ms = now_ms
            if aborted:
                self._note_aborted(segment, aborted)
            segment.append(buffer, self.log_end_offset, config.index_interval_bytes)
        except OSError as error:
            if aborted:
                segment.transactions.truncate_to(self.log_end_offset)
            raise self._poison(error) from error
        self.log_end_offset = last_offset + 1

    def _note_aborted(self, segment: Segment, aborted: Sequence[Aborted]) -> None:
        if not segment.transactions:
            self.segments.unsynced_directories[self.directory] = None
        segment.transactions.append(aborted)

    def _assign_epoch(self, epoch: int, start_offset: int, *, durable: bool = False) -> None:
        try:
            self.epochs.assign(epoch, start_offset, durable=durable)
        except OSError as error:
            raise self._poison(error) from error

    def begin_epoch(self, above: int = -1) -> None:
        """Begins a new leader epoch at the log end offset. May run in any thread. Raises
        LogPoisoned.

        The new epoch is 1 above the latest epoch or ``above``, whichever is greater, but at most
        LEADER_EPOCH_MAX. A log with records but without epochs first gets epoch 0.

        When this method returns, the epoch and all earlier records are on the disk. If a power
        failure could still remove records, the epoch would begin after the new log end, and the
        next start would drop it. The broker could then use the same epoch again, although other
        brokers have observed it.
        """
        if self.recovery_point < self.log_end_offset:
            self.flush()
        if self.epochs.latest < 0 and self.log_end_offset > self.log_start_offset:
            self._assign_epoch(0, self.log_start_offset)
        epoch = min(max(self.epochs.latest, above) + 1, LEADER_EPOCH_MAX)
        self._assign_epoch(epoch, self.log_end_offset, durable=True)

    def roll(self) -> Segment:
        """Seals the active segment and begins a new segment at the log end offset. Has no effect if
        the active segment is empty. The next flush fsyncs the sealed segment. Raises OSError."""
        sealed = self.active
        if not sealed.size:
            return sealed
        sealed.seal()
        if self.image is not None:
            self._rolled_since = True
        elif self.producers.are_many:
            self.image = self.producers.freeze(self.log_end_offset)
        else:
            with suppress(OSError):  # the snapshot only saves time at the next start
                self._save_producers()
        return self.segments.add(self.log_end_offset, self.config)

    # -- snapshots of producers

    def _save_producers(self) -> None:
        self._drop_image()
        image = self.producers.freeze(self.log_end_offset)
        for _ in image.pack():
            pass
        self.producers.thaw()
        write_image(self.fs, self.directory, image)

    def write_image(self, image: ProducerImage) -> None:
        """Writes ``image``, which must be packed, to its snapshot file. Does nothing if the image
        was discarded. May run in any thread. Raises OSError."""
        with self._imaging:
            if not image.is_void:
                write_image(self.fs, self.directory, image)

    def image_written(self, image: ProducerImage) -> None:
        """Discards an image. Called after the image was written, even if the write failed. If the
        log was rolled during the write, creates a new image."""
        if self.image is image:
            self._drop_image()
            if self._rolled_since:
                self._rolled_since = False
                self.image = self.producers.freeze(self.log_end_offset)

    def _drop_image(self) -> None:
        """Discards the image of the producers (the content of their next snapshot file), if it
        exists. Called after the image was written or the log was truncated."""
        image, self.image = self.image, None
        if image is not None:
            with self._imaging:
                image.is_void = True
            self.producers.thaw()

    # -- failed writes (law 6)

    def _poison(self, error: OSError) -> LogPoisoned:
        self.poisoned = f"a write to {self.active.file.path} failed: {error}"
        self._cut_back()
        return LogPoisoned(self.poisoned, final=self.failed_for_good)

    def _cut_back(self) -> None:
        try:
            self.active.cut_back()
        except OSError as error:
            self.fail_for_good(f"truncating {self.active.file.path} failed: {error}")

    def fail_for_good(self, reason: str) -> None:
        """Makes the log reject all appends, probe writes and flushes from now on. ``reason`` is
        part of the error messages."""
        self._final_reason = reason
        self.failed_for_good = True
        self.poisoned = reason

    def probe(self) -> None:
        """Tries a write. If it succeeds, the log accepts appends again. Raises OSError if the write
        fails, and LogPoisoned if the log has failed permanently."""
        if self.poisoned is not None and self.failed_for_good:
            raise LogPoisoned(self.poisoned, final=True)
        segment = self.active
        try:
            segment.file.write(segment.size, bytes(PROBE_BYTES))
        finally:
            self._cut_back()
        if self.failed_for_good:
            raise LogPoisoned(self.poisoned or "", final=True)
        # the reason of a flush that has just failed in its thread
        self.poisoned = self._final_reason

    # -- flushing

    @property
    def flush_due(self) -> bool:
        return self.log_end_offset - self.recovery_point >= self.config.flush_messages

    def flush(self) -> int:
        """Fsyncs all appended records. May run in any thread. Returns the offset below which all
        records are fsynced.

        After a failed fsync the state of the disk is unknown, and LogPoisoned with ``final`` is
        raised.
        """
        if self.failed_for_good:
            raise LogPoisoned(self.poisoned or "", final=True)
        with self._flushing:
            return self._flush()

    def _flush(self, closing: bool = False) -> int:
        """Does the work of `flush`, for a caller that has acquired the lock. With ``closing`` also
        fsyncs the active segment's indexes.

        An OSError is final. After any other error, such as MemoryError, another flush may be tried.
        """
        end_offset = self.log_end_offset
        try:
            self.segments.fsync(self.recovery_point, end_offset, closing)
        except OSError as error:
            self.fail_for_good(f"flushing {self.directory} failed: {error}")
            raise LogPoisoned(self.poisoned or "", final=True) from error
        self.recovery_point = max(self.recovery_point, min(end_offset, self.log_end_offset))
        return end_offset

    def sync_names(self) -> None:
        """Fsyncs the directory entries of the log's files. May run in any thread. Raises
        OSError."""
        if self.segments.unsynced_directories:
            with self._flushing:
                self.segments.sync_names()

    def close(self, clean: bool = True) -> None:
        """Closes the log. If ``clean`` is True, first writes the indexes and the producer snapshot,
        and flushes the log; the recovery point is then the log end offset. Raises LogPoisoned and
        OSError."""
        try:
            if clean and not self.failed_for_good:
                with self._flushing:
                    self._finish()
        finally:
            self._drop_image()
            # the next process that opens the log is the only writer
            self.fail_for_good(f"{self.directory} is closed")

    def _finish(self) -> None:
        if not self.fs.exists(self.active.index.path):
            self.segments.unsynced_directories[self.directory] = None
        self.active.seal()
        self._save_producers()
        if self.size_bytes:  # an empty log needs none of this state
            self._flush(closing=True)
        self.recovery_point = self.log_end_offset

    # -- reading

    def read(
        self,
        offset: int,
        max_bytes: int,
        min_one_batch: bool = True,
        max_offset: int | None = None,
        wait: bool = True,
    ) -> ReadInfo:
        """Finds at most ``max_bytes`` of batches in one segment, from the batch with ``offset`` on.
        May run in any thread.

        With ``min_one_batch`` the first batch is returned as a whole, whatever its length. Only
        records below ``max_offset`` (default: the log end offset) are returned. Raises
        OffsetOutOfRange and CorruptLog. If ``wait`` is False, raises NotInMemory instead of waiting
        for the disk.
        """
        start_offset, end_offset = self.log_start_offset, self.log_end_offset
        if not start_offset <= offset <= end_offset:
            raise OffsetOutOfRange(offset, start_offset, end_offset)
        limit = end_offset if max_offset is None else max_offset
        found, incomplete, segment = self.segments.read(
            offset, max_bytes, limit, end_offset, min_one_batch, wait
        )
        slices = () if found is None else (found,)
        return ReadInfo(slices, start_offset, end_offset, incomplete, segment)

    def scan(
        self, from_offset: int | None = None, chunk_bytes: int = CHUNK_BYTES
    ) -> Iterator[tuple[bytes, BatchHeader]]:
        """Yields all batches from the batch with ``from_offset`` (default: the log start offset) to
        the log end. Raises CorruptLog.

        Each element has a buffer and a header whose ``position`` is in this buffer. Checksums are
        verified. ``chunk_bytes`` is the size of a read; only a longer batch needs a larger read.
        Each step reads at most one chunk, so that a loader can stop between two steps.
        """
        offset = self.log_start_offset if from_offset is None else from_offset
        return self.segments.scan(offset, chunk_bytes)

    def offset_for_timestamp(
        self, timestamp_ms: int, max_offset: int | None = None
    ) -> TimestampOffset | None:
        """Returns the first record below ``max_offset`` with a timestamp of at least
        ``timestamp_ms``; None without such a record. ``max_offset`` defaults to the log end offset.
        Raises CorruptLog."""
        limit = self.log_end_offset if max_offset is None else max_offset
        return lookup.offset_for_timestamp(
            self.segments, timestamp_ms, self.log_start_offset, limit
        )

    def offset_of_max_timestamp(self, max_offset: int | None = None) -> TimestampOffset | None:
        """Returns the first record with the largest timestamp among the records below
        ``max_offset`` (default: the log end offset); None if no record has a timestamp. Raises
        CorruptLog."""
        limit = self.log_end_offset if max_offset is None else max_offset
        return lookup.offset_of_max_timestamp(self.segments, limit)

    def segment_offsets_before(
        self, timestamp_ms: int, max_offsets: int, now_ms: int, max_offset: int | None = None
    ) -> list[int]:
        """Returns the offsets for a ListOffsets v0 response: the log end offset, then the base
        offsets of segments, the newest first.

        The segments are those that were last written at or before ``timestamp_ms``. A
        ``timestamp_ms`` of -1 means all segments, -2 only the first segment. If ``max_offset`` is
        set, it replaces the log end offset.
        """
        return lookup.segment_offsets_before(
            self.segments,
            timestamp_ms,
            max_offsets,
            start_offset=self.log_start_offset,
            end_offset=self.log_end_offset,
            limit=self.log_end_offset if max_offset is None else max_offset,
            now_ms=now_ms,
        )

    def aborted_between(self, offset: int, end: int) -> list[tuple[int, int]]:
        """Returns the aborted transactions that a reader of the records from ``offset`` to ``end -
        1`` needs, as (producer id, first offset), ordered by first offset. These are the aborted
        transactions that end at or above ``offset`` and begin below ``end``."""
        return overlapping(self.segments.from_offset(offset), offset, end)

    def aborted_in(self, info: ReadInfo, offset: int, limit: int) -> list[tuple[int, int]]:
        """Returns the aborted transactions (see `aborted_between`) that a consumer must know to
        filter the records of the read ``info``. This read began at ``offset`` and ended at or below
        ``limit``.

        Never waits for the disk, and may therefore not know the exact end of the read. In that
        case, the list may also contain transactions after the read. The method also works if a
        cleaner has replaced the segment after the read.
        """
        segments = self.segments.from_offset(offset)
        if info.segment is not None and info.segment is not segments[0]:
            segments = [info.segment, *segments]
        if not any(segment.transactions for segment in segments):
            return []
        if info.segment is not None:
            limit = min(limit, self.segments.end_of(info.segment, limit))
        return overlapping(segments, offset, min(limit, end_of_bytes(info, limit)))

    # -- deletion and truncation

    def apply_retention(self, now_ms: int, max_offset: int | None = None) -> list[int]:
        """Deletes the segments that must be deleted because of retention or the log start offset.
        Returns the base offsets of these segments. Also removes the files of earlier deletions.

        A segment whose end offset is above ``max_offset`` (default: the log end offset) is kept. If
        a segment can't be deleted, the other segments are still deleted; ``segments.undeleted`` has
        the reason, and the next call retries. Raises OSError.
        """
        segments = self.segments
        segments.undeleted = None
        segments.purge(now_ms)
        if segments.swapping:
            return []
        count = retention.count_leaving(
            segments,
            self.config,
            start_offset=self.log_start_offset,
            end_offset=self.log_end_offset,
            limit=self.log_end_offset if max_offset is None else max_offset,
            now_ms=now_ms,
        )
        if count == len(segments):
            try:
                self.roll()
            # for example on a full disk, on which the other segments must be freed
            except OSError as error:
                segments.note_undeleted(error)
                count -= 1
        if self.image is not None:
            # Until the image is written, a start needs the segments after the previous snapshot.
            newest = max(snapshot_offsets(self.fs, self.directory), default=0)
            count = min(count, sum(each.base_offset <= newest for each in segments[1:]))
        return self._delete_first(count, now_ms) if count else []

    def retention_idle_ms(self, now_ms: int, max_offset: int) -> int | None:
        """Returns the milliseconds after which `apply_retention` must be called again even if the
        log does not change; None if it need not be called. Raises OSError."""
        leave = retention.count_leaving(
            self.segments,
            self.config,
            start_offset=self.log_start_offset,
            end_offset=self.log_end_offset,
            limit=max_offset,
            now_ms=now_ms,
        )
        return 0 if leave else retention.idle_ms(self.segments, self.config, now_ms=now_ms)

    def _delete_first(self, count: int, now_ms: int) -> list[int]:
        segments = self.segments
        gone = segments.take_first(count)
        self.log_start_offset = max(self.log_start_offset, segments[0].base_offset)
        for segment in gone:
            segments.hide(segment, now_ms + self.config.file_delete_delay_ms)
        try:
            self.epochs.truncate_from_start(self.log_start_offset)
            remove_snapshots(self.fs, self.directory, segments[0].base_offset)
        except OSError as error:
            segments.note_undeleted(error)
        return [segment.base_offset for segment in gone]

    def expire_producers(self, now_ms: int) -> Iterator[None]:
        """Removes, in short steps, the producers that were idle for longer than
        `producer.id.expiration.ms`."""
        return self.producers.expire(now_ms - self.config.producer_id_expiration_ms)

    def delete_records(self, offset: int, max_offset: int | None = None) -> int:
        """Raises the log start offset to ``offset``, or to ``max_offset`` if ``offset`` is -1. The
        default of ``max_offset`` is the log end offset. Returns the new log start offset. Raises
        OffsetOutOfRange if ``offset`` is above ``max_offset``.

        The next retention check deletes the segments below the new log start offset.
        """
        limit = self.log_end_offset if max_offset is None else max_offset
        target = limit if offset == TO_HIGH_WATERMARK else offset
        if not 0 <= target <= limit:
            raise OffsetOutOfRange(offset, self.log_start_offset, limit)
        if target > self.log_start_offset:
            self.epochs.truncate_from_start(target)
            self.log_start_offset = target
        return self.log_start_offset

    def truncate_to(self, offset: int, now_ms: int) -> int:
        """Drops the batch that contains ``offset`` and all later batches. Returns the new log end
        offset. Raises LogPoisoned and LogBusy.

        If no batch is dropped, the leader epochs do not change either: an epoch that begins at the
        log end offset and has no batch yet is kept. `sync_cuts` makes the truncation durable.
        """
        if offset >= self.log_end_offset:
            return self.log_end_offset
        self._begin_cut()
        try:
            end_offset, gone = self.segments.cut(offset, self.config)
        except OSError as error:
            reason = f"truncating {self.directory} to offset {offset} failed: {error}"
            self.fail_for_good(reason)
            raise LogPoisoned(reason, final=True) from error
        self._truncated(end_offset, gone, now_ms)
        return end_offset

    def start_at(self, offset: int, now_ms: int) -> int:
        """Drops all batches; the next batch begins at ``offset`` or above. Otherwise like
        `truncate_to`: returns the new log end offset, and raises the same errors."""
        self._begin_cut()
        try:
            gone = self.segments.start_at(offset, self.config)
        except OSError as error:
            reason = f"resetting {self.directory} to start at offset {offset} failed: {error}"
            self.fail_for_good(reason)
            raise LogPoisoned(reason, final=True) from error
        self.log_start_offset = offset
        self.epochs.truncate_from_end(0, durable=False)
        self._truncated(offset, gone, now_ms)
        return offset

    def _begin_cut(self) -> None:
        if self.segments.swapping:
            raise LogBusy(
                f"{self.directory} can't be truncated while the cleaner replaces segments; retry."
            )
        self._drop_image()
        self._rolled_since = False

    def _truncated(self, end_offset: int, gone: Sequence[Segment], now_ms: int) -> None:
        self.truncations += 1
        self.log_end_offset = end_offset
        self.log_start_offset = min(self.log_start_offset, end_offset)
        self.recovery_point = min(self.recovery_point, end_offset)
        for segment in gone:
            self.segments.hide(segment, now_ms + self.config.file_delete_delay_ms)
        self.epochs.truncate_from_end(end_offset, durable=False)
        self._fold()
        self._note_cut()

    def _note_cut(self) -> None:
        self.segments.unsynced_directories[self.directory] = None
        self._cuts += 1

    @property
    def cuts_are_synced(self) -> bool:
        """Returns True if all truncations of the log are fsynced. While it returns False, callers
        must not append to the log."""
        return self._cuts == self._cuts_synced

    def sync_cuts(self) -> None:
        """Fsyncs the truncations. May run in any thread. A truncation during the call is fsynced by
        the next call. If the fsync fails, raises LogPoisoned with ``final`` set to True.

        Without this fsync, dropped batches could reappear after a power failure, followed by new
        batches. If the power fails before this call, the truncation may be undone. The log is then
        still intact and can be truncated again, because each truncation first lowers the recovery
        point, from which recovery reads all batches.
        """
        if self.cuts_are_synced:
            return
        with self._flushing:
            cuts = self._cuts
            if cuts == self._cuts_synced or self.failed_for_good:
                return
            try:
                self.active.file.fsync()
                self.epochs.sync()
                self.segments.sync_names()
            except OSError as error:
                self.fail_for_good(f"truncating {self.directory} failed: {error}")
                raise LogPoisoned(str(self.poisoned), final=True) from error
            self._cuts_synced = cuts

    @property
    def first_unstable_offset(self) -> int:
        """Returns the first offset of the earliest open transaction, or the log start offset if
        that is higher. Without an open transaction returns the log end offset."""
        for first_offset in self.producers.open_transactions.values():
            return max(first_offset, self.log_start_offset)
        return self.log_end_offset

    @property
    def first_uncleanable_offset(self) -> int:
        """Returns the offset at which the cleaner must stop. All records below it are committed,
        and all their transactions have ended. In a cluster a transaction counts as open until its
        marker is below the high watermark."""
        offset = min(self.first_unstable_offset, self.committed_offset)
        ended = self.producers.ended
        return min(offset, ended[0][1]) if ended and self.committed_offset < LONG_MAX else offset

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes
