"""The segments of one log, in the order of their offsets, and the fsync and removal of their files.

`Segments` has the list of segments, the directories with names that are not fsynced, and the files
of removed segments. The caller passes the start, end and stable offsets of the log. One thread
rolls, deletes and exchanges segments. Other threads may read and fsync at the same time, because
the list is replaced and never changed.

A segment is deleted as in Kafka: its files are renamed to ``.deleted`` immediately. They are
removed after `file.delete.delay.ms`, or when the log is opened next. Current readers can finish.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import overload
from weakref import ref

from log.batch_scan import CHUNK_BYTES, whole_batches
from log.config import LogConfig
from log.files.filesystem import FileSystem
from log.leftovers import Leaving
from log.segment import DELETED, Segment
from log.values import Slice
from protocol.records.batch import BatchHeader

Chance = Callable[[int], int]
"""A function that returns a random number from 0 to its argument minus 1."""


class Segments:
    """The segments of a log, in ascending order. A log has at least one segment. Only the last
    segment, ``active``, grows."""

    def __init__(
        self, fs: FileSystem, directory: str, segments: list[Segment], chance: Chance
    ) -> None:
        self.fs = fs
        self.directory = directory
        self.active = segments[-1]
        self.pending_deletes: list[Leaving] = []
        """Deleted segments whose files are not yet removed."""
        self.undeleted: OSError | None = None
        """The error of the first file that the last retention check could not remove; None if it
        removed all files. The next check retries."""
        self.swapping = False
        """True if a cleaned segment is replacing old segments. Segments must not be deleted during
        this time."""
        self.unsynced_directories: dict[str, None] = {}
        """The directories that were not fsynced since a file was created, renamed or removed in
        them. The dict is never replaced: the appending thread adds to it while the flushing thread
        removes from it."""
        self._all = segments
        """The list of segments. A change replaces the whole list, so that other threads always see
        a consistent list."""
        self._chance = chance
        self._capped: tuple[Segment | None, int, int] = (None, -1, -1)
        """The arguments and the result of the last call of `_cap`: the segment, the limit, and the
        position in the segment at which a read must end."""

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._all)

    @overload
    def __getitem__(self, index: int) -> Segment: ...

    @overload
    def __getitem__(self, index: slice) -> list[Segment]: ...

    def __getitem__(self, index: int | slice) -> Segment | list[Segment]:
        return self._all[index]

    @property
    def size_bytes(self) -> int:
        return sum([segment.size for segment in self._all])

    # -- by offset

    def at(self, offset: int) -> Segment:
        """Returns the segment that contains ``offset``. For an offset below the log, returns the
        first segment."""
        return self.from_offset(offset)[0]

    def from_offset(self, offset: int) -> list[Segment]:
        """Returns the segment that contains ``offset``, and all later segments. For an offset below
        the log, returns all segments."""
        segments = self._all
        return segments[max(0, bisect_right(segments, offset, key=_base_offset) - 1) :]

    def up_to(self, offset: int) -> list[Segment]:
        """Returns the segments up to and including the segment that contains ``offset``."""
        segments = self._all
        return segments[: max(1, bisect_right(segments, offset, key=_base_offset))]

    def with_ends(self, end_offset: int) -> list[tuple[Segment, int]]:
        """Returns each segment with its end offset. The end offset is the base offset of the next
        segment, or ``end_offset`` for the last segment."""
        segments = self._all
        following = [segment.base_offset for segment in segments[1:]]
        return list(zip(segments, [*following, end_offset], strict=True))

    def end_of(self, segment: Segment, end_offset: int) -> int:
        """Returns the end offset of one segment. The segment may have been removed from the
        list."""
        segments = self._all
        index = bisect_right(segments, segment.base_offset, key=_base_offset)
        return segments[index].base_offset if index < len(segments) else end_offset

    def read(
        self,
        offset: int,
        max_bytes: int,
        limit: int,
        end_offset: int,
        min_one_batch: bool,
        wait: bool,
    ) -> tuple[Slice | None, bool, Segment | None]:
        """Implements PartitionLog.read. Returns a slice with the bytes, whether its first batch is
        incomplete, and the segment that contains the slice.

        Reads only records below ``limit``, which is at most the log's ``end_offset``. Raises
        CorruptLog. If ``wait`` is False, raises NotInMemory instead of waiting for the disk.
        """
        if offset >= limit:
            return None, False, None
        place, last = None, self._all[-1]
        for segment in (last,) if offset >= last.base_offset else self.from_offset(offset):
            place = segment.locate(offset, wait=wait)
            if place is not None:
                break
        if place is None:
            return None, False, None
        end = segment.size if limit >= end_offset else self._cap(segment, limit, wait)
        first = place.end - place.position
        length = min(max_bytes, end - place.position)
        if length < first and min_one_batch:
            length = min(first, end - place.position)
        if length <= 0:
            return None, False, None
        return Slice(segment.file.opened(), place.position, length), length < first, segment

    def _cap(self, segment: Segment, limit: int, wait: bool) -> int:
        """Returns the position of the first batch in ``segment`` with an offset at or above
        ``limit``; the end of the segment if it has no such batch.

        The last result is cached. While a transaction is open, all consumers that read up to the
        last stable offset stop at the same position.
        """
        of, kept, position = self._capped
        if of is segment and kept == limit:
            return position
        if segment is not self.active and self.end_of(segment, limit) <= limit:
            return segment.size
        beyond = segment.locate(limit, wait=wait)
        if beyond is None:
            return segment.size
        self._capped = segment, limit, beyond.position
        return beyond.position

    def scan(
        self, from_offset: int, chunk_bytes: int = CHUNK_BYTES
    ) -> Iterator[tuple[bytes, BatchHeader]]:
        for segment in self.from_offset(from_offset):
            end = segment.size
            place = segment.locate(from_offset, end)
            if place is None:
                continue
            for buffer, header, _ in whole_batches(segment.file, place.position, end, chunk_bytes):
                yield buffer, header

    # -- growth

    def add(self, base_offset: int, config: LogConfig) -> Segment:
        """Appends an empty segment to the list, as the active segment. Raises OSError."""
        segment = self._create(base_offset, config)
        self._all = [*self._all, segment]
        self.active = segment
        return segment

    def _create(self, base_offset: int, config: LogConfig) -> Segment:
        index_bytes = config.segment_index_bytes
        segment = Segment(self.fs, self.directory, base_offset, index_bytes, create=True)
        self.prepare(segment, config)
        self.unsynced_directories[self.directory] = None
        return segment

    def prepare(self, segment: Segment, config: LogConfig) -> None:
        """Sets the jitter of an active segment. Allocates disk space for it, if `preallocate` is
        set and the segment is empty."""
        jitter_ms = max(1, min(config.segment_jitter_ms, config.segment_ms))
        segment.jitter_ms = self._chance(jitter_ms)
        if config.preallocate and not segment.size:
            segment.reserve(config.segment_bytes)

    def cut(self, offset: int, config: LogConfig) -> tuple[int, list[Segment]]:
        """Drops the batch that contains ``offset`` and all later batches. Returns the new end
        offset, and the removed segments, which the caller must pass to `hide`. Raises OSError."""
        kept = [segment for segment in self._all if segment.base_offset <= offset]
        gone = self._all[len(kept) :]
        if kept:
            end_offset = kept[-1].truncate_to(offset)
            kept[-1].resume()
        else:
            kept = [self._create(offset, config)]
            end_offset = offset
        self._all = kept
        self.active = kept[-1]
        self._capped = (None, -1, -1)  # another batch may soon be at the cached position
        return end_offset, gone

    def start_at(self, offset: int, config: LogConfig) -> list[Segment]:
        """Drops all batches. The only remaining segment begins at ``offset``. Returns the removed
        segments, which the caller must pass to `hide`."""
        kept = next((segment for segment in self._all if segment.base_offset == offset), None)
        if kept is None:
            kept = self._create(offset, config)
        else:
            kept.truncate_to(offset)
            kept.resume()
        gone = [segment for segment in self._all if segment is not kept]
        self._all = [kept]
        self.active = kept
        self._capped = (None, -1, -1)
        return gone

    # -- removal

    def take_first(self, count: int) -> list[Segment]:
        """Removes the first ``count`` segments from the list, but never all segments. Returns the
        removed segments, which the caller must pass to `hide`."""
        gone = self._all[:count]
        self._all = self._all[count:]
        return gone

    def exchange(self, sources: Sequence[Segment], segment: Segment) -> None:
        """Replaces adjacent segments by ``segment``, which has all their remaining records."""
        segments = self._all
        first = segments.index(sources[0])
        self._all = [*segments[:first], segment, *segments[first + len(sources) :]]

    def hide(self, segment: Segment, due_ms: int) -> None:
        """Renames the files of a removed segment to ``.deleted``. `purge` removes them at the wall
        time ``due_ms``.

        A file that can't be renamed is removed under its current name. If the broker crashes before
        the removal, the segment is in the log again after the restart, below the log start offset.
        Retention then deletes it again.
        """
        try:
            segment.rename(DELETED)
        except OSError as error:
            self.note_undeleted(error)
        self.pending_deletes.append(Leaving(segment.paths(), ref(segment), due_ms))

    def purge(self, now_ms: int) -> None:
        """Removes the files of removed segments whose delay has passed. The next call retries a
        file that can't be removed."""
        waiting = []
        for leaving in self.pending_deletes:
            if leaving.due_ms <= now_ms:
                failed = leaving.remove(self.fs)
                if failed is None:
                    continue
                self.note_undeleted(failed)
            waiting.append(leaving)
        self.pending_deletes = waiting

    def note_undeleted(self, error: OSError) -> None:
        """Stores the error of a failed attempt to remove a segment. Only the first error of a
        retention check is kept."""
        self.undeleted = self.undeleted or error

    # -- fsync

    def fsync(self, from_offset: int, end_offset: int, closing: bool = False) -> None:
        """Fsyncs each segment whose end is at or above ``from_offset``, and all directory entries.
        With ``closing``, also fsyncs the indexes of the active segment; the caller must have sealed
        them.

        Only one thread may call this method at a time. Appends may run concurrently. Raises
        OSError.
        """
        segments = self.with_ends(end_offset)
        last = segments[-1][0]
        for segment, end in segments:
            if end >= from_offset:
                segment.fsync(indexes=closing or segment is not last)
        self.sync_names()

    def sync_names(self) -> None:
        """Fsyncs the directories in which files were created or renamed. Raises OSError.

        Another thread may add a directory to ``unsynced_directories`` at any time. Therefore a
        directory is removed before its fsync, and added again if the fsync fails. A directory that
        another thread adds is fsynced by this call or by the next one.
        """
        unsynced = self.unsynced_directories
        while unsynced:
            directory = unsynced.popitem()[0]
            try:
                self.fs.fsync_directory(directory)
            except BaseException:
                unsynced[directory] = None
                raise


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
