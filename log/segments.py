"""The segments of one log, in the order of their offsets, and what is on the disk of them.

Owns the list, the names that no fsync has seen, and the files of segments that have left and are
still to be removed. What offsets mean (where a log begins, ends and is stable) its owner knows and
gives. One thread rolls, deletes and exchanges; others may read and fsync meanwhile, since the list
is replaced and never changed.

A segment is deleted as Kafka does it: its files are renamed to ``.deleted`` at once, and removed
after `file.delete.delay.ms`, or when the log is opened next. Whoever still reads it reads on.
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
"""A number from 0 to below the one given, at random."""


class Segments:
    """At least one segment, ascending; ``active``, the last, is the only one that grows."""

    def __init__(
        self, fs: FileSystem, directory: str, segments: list[Segment], chance: Chance
    ) -> None:
        self.fs = fs
        self.directory = directory
        self.active = segments[-1]
        self.pending_deletes: list[Leaving] = []
        """Segments that were deleted, whose files are to be removed later."""
        self.undeleted: OSError | None = None
        """Why what the last retention run should have removed is still there; the next one tries
        again."""
        self.swapping = False
        """A cleaner is exchanging segments: none may be deleted just now."""
        self.unsynced_directories: dict[str, None] = {}
        """Directories with names that no fsync has seen. Never replaced: the thread that appends
        adds to it while the one that flushes takes from it."""
        self._all = segments
        """Replaced whole, so that other threads see one state of it."""
        self._chance = chance
        self._capped: tuple[Segment | None, int, int] = (None, -1, -1)
        """A segment, a limit of reads in it, and the position that they end at."""

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
        """Bytes of all segments' batches."""
        return sum([segment.size for segment in self._all])

    # -- by offset

    def at(self, offset: int) -> Segment:
        """The segment that has ``offset``, the first one for an offset before it."""
        return self.from_offset(offset)[0]

    def from_offset(self, offset: int) -> list[Segment]:
        """The segment that has ``offset``, the first for an offset before it, and all behind it."""
        segments = self._all
        return segments[max(0, bisect_right(segments, offset, key=_base_offset) - 1) :]

    def up_to(self, offset: int) -> list[Segment]:
        """All before the segment that has ``offset``, and that one."""
        segments = self._all
        return segments[: max(1, bisect_right(segments, offset, key=_base_offset))]

    def with_ends(self, end_offset: int) -> list[tuple[Segment, int]]:
        """Each segment, and where the next begins; behind the last the log's ``end_offset``."""
        segments = self._all
        following = [segment.base_offset for segment in segments[1:]]
        return list(zip(segments, [*following, end_offset], strict=True))

    def end_of(self, segment: Segment, end_offset: int) -> int:
        """The same of one, which may have left the list meanwhile."""
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
        """The bytes that PartitionLog.read gives, whether not even the first batch is whole, and
        the segment that has them.

        Nothing at or above ``limit`` is read, which is at most the log's ``end_offset``. Raises
        CorruptLog, and unless ``wait`` is set NotInMemory where the disk must be waited for.
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
        """Where in ``segment`` the first batch begins that reaches ``limit``; its end without one.

        While a transaction is open its readers all end at its first batch, so the last answer is
        kept.
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
        """See PartitionLog.scan."""
        for segment in self.from_offset(from_offset):
            end = segment.size
            place = segment.locate(from_offset, end)
            if place is None:
                continue
            for buffer, header, _ in whole_batches(segment.file, place.position, end, chunk_bytes):
                yield buffer, header

    # -- what grows

    def add(self, base_offset: int, config: LogConfig) -> Segment:
        """Begin an empty segment behind the others: the active one from now on. Raises OSError."""
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
        """Give an active segment its share of the jitter and, while it is empty, its room."""
        jitter_ms = max(1, min(config.segment_jitter_ms, config.segment_ms))
        segment.jitter_ms = self._chance(jitter_ms)
        if config.preallocate and not segment.size:
            segment.reserve(config.segment_bytes)

    def cut(self, offset: int, config: LogConfig) -> tuple[int, list[Segment]]:
        """Drop the batches that reach ``offset`` or lie above it.

        Returns the new end offset and the segments that have left, for `hide`. Raises OSError.
        """
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
        self._capped = (None, -1, -1)  # the batch there may be another soon
        return end_offset, gone

    def start_at(self, offset: int, config: LogConfig) -> list[Segment]:
        """Drop all batches; the only segment begins at ``offset``. Otherwise like `cut`."""
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

    # -- what leaves

    def take_first(self, count: int) -> list[Segment]:
        """Let the first segments, but never all, leave the list; they are for `hide`."""
        gone = self._all[:count]
        self._all = self._all[count:]
        return gone

    def exchange(self, sources: Sequence[Segment], segment: Segment) -> None:
        """Put ``segment`` in the place of neighbours of which it has all that is to stay."""
        segments = self._all
        first = segments.index(sources[0])
        self._all = [*segments[:first], segment, *segments[first + len(sources) :]]

    def hide(self, segment: Segment, due_ms: int) -> None:
        """Rename the files of a segment that has left, to be removed at ``due_ms`` (wall).

        One that can't be renamed is removed by the name that it has. A crash before that brings it
        back into the log, below the log's start, where the next process's retention finds it.
        """
        try:
            segment.rename(DELETED)
        except OSError as error:
            self.note_undeleted(error)
        self.pending_deletes.append(Leaving(segment.paths(), ref(segment), due_ms))

    def purge(self, now_ms: int) -> None:
        """Remove the files whose delay is over; what can't be removed is tried again next time."""
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
        """Remember why something is still there: the first reason since it was asked."""
        self.undeleted = self.undeleted or error

    # -- on the disk

    def fsync(self, from_offset: int, end_offset: int, closing: bool = False) -> None:
        """Bring the segments that reach ``from_offset``, and all names, to the disk.

        With ``closing`` the active segment's indexes too, as they are sealed. One at a time;
        appends may go on beside it. Raises OSError.
        """
        segments = self.with_ends(end_offset)
        last = segments[-1][0]
        for segment, end in segments:
            if end >= from_offset:
                segment.fsync(indexes=closing or segment is not last)
        self.sync_names()

    def sync_names(self) -> None:
        """Fsync the directories that have new names; each leaves them alone, before its fsync.

        Another thread may add one at any time: what it adds is for this round or for the next.
        Raises OSError; the directory that failed is among them again.
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
