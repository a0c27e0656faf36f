"""The committed offsets of OffsetCommit and OffsetFetch v0, which Kafka stored in ZooKeeper's
consumer paths.

A cluster stores these offsets in ZooKeeper, at ``/consumers/GROUP/offsets/TOPIC/PARTITION``
(`broker/cluster/topics/consumer_paths.py`). A standalone broker stores them in the file
``consumers.offsets`` of its data directory (docs/formats/registry.md). Each commit of a partition
adds one JSON line: ``["group", "topic", partition, offset]``. The last line for a group and
partition is valid.

These offsets are separate from the offsets in ``__consumer_offsets``. They have no metadata, no
expiry and no generation. Source: Kafka 0.8.1 to 1.0, KafkaApis.handleOffsetCommit.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import structlog

from broker.time import Time
from broker.topics.directory.shared_writes import SharedWrites
from broker.topics.registry import BadDirectory, OldOffset, Place
from log.files.filesystem import File, FileSystem, read_whole

logger = structlog.get_logger(__name__)

FILE = "consumers.offsets"
_REWRITE_BYTES_MIN = 1 << 20
"""The file size in bytes from which the file may be rewritten."""
_BYTES_AT_ONCE = 1 << 20


class FileConsumerPaths:
    """An append-only file of committed offsets, which is read into memory at the start. Only one
    thread at a time may write. Raises BadDirectory if the file is damaged."""

    def __init__(self, fs: FileSystem, directory: str) -> None:
        self._fs = fs
        self._directory = directory
        self._path = os.path.join(directory, FILE)
        self._offsets: dict[tuple[str, str, int], int] = {}
        self._live_bytes = 0
        """The approximate total size in bytes of the valid lines. An offset that gets more digits
        does not change this value."""
        self._unflushed = 0
        """The number of lines that have not been fsynced."""
        self._file: File | None = None
        self._size = 0
        """The size in bytes of all complete lines in the file. The file is longer if it ends with a
        partial line."""
        self._torn = False
        """True if a write has failed and its partial line could not be truncated."""
        self._name_unsynced = False
        self._failed: OSError | None = None
        """The error of a failed fsync; all later writes are rejected, since the state of the disk
        is unknown. None before a failure."""
        self._rewrite_at = _REWRITE_BYTES_MIN
        if fs.exists(self._path):
            self._read()

    # -- changes

    def write(self, entries: Sequence[OldOffset], flush_messages: int) -> None:
        """Writes offsets so that they survive ``kill -9``. Called outside the event loop's thread.

        Fsyncs if at least `flush_messages` lines have not been fsynced. After an OSError none of
        the offsets is stored.
        """
        if self._failed is not None:
            raise self._failed
        file = self._opened()
        lines = [_line(*entry) for entry in entries]
        if self._torn:
            file.truncate(self._size)
            self._torn = False
        try:
            file.write(self._size, b"".join(lines))
        except OSError:
            self._torn = True  # a line after a partial line would be unreadable
            with suppress(OSError):
                file.truncate(self._size)
                self._torn = False
            raise
        self._size += sum(map(len, lines))
        added = {entry[:3]: len(line) for entry, line in zip(entries, lines, strict=True)}
        self._live_bytes += sum(size for key, size in added.items() if key not in self._offsets)
        self._unflushed += len(entries)
        # The first commit is fsynced, since later starts report the file if it is missing.
        if self._name_unsynced or self._unflushed >= flush_messages:
            self.flush()

    def flush(self) -> None:
        """Fsyncs all written lines. After an OSError all later writes fail."""
        if self._file is None or not self._unflushed:
            return
        try:
            self._file.fsync()
            if self._name_unsynced:
                self._fs.fsync_directory(self._directory)
        except OSError as error:
            self._failed = error
            raise
        self._unflushed = 0
        self._name_unsynced = False

    def take(self, entries: Sequence[OldOffset]) -> None:
        """Stores offsets in memory after they were written to the file, so that `fetch` returns
        them."""
        for group_id, topic, partition, offset in entries:
            self._offsets[group_id, topic, partition] = offset

    @property
    def outgrown(self) -> bool:
        """Returns True if superseded lines make up most of the file, so that `rewrite` is
        useful."""
        return self._size > max(self._rewrite_at, 2 * self._live_bytes)

    def rewrite(self) -> None:
        """Rewrites the file with only the valid lines. After an OSError the file is unchanged."""
        self._rewrite_at = 2 * self._size  # the size for another try, if this rewrite fails
        temporary = f"{self._path}.tmp"
        self._fs.remove(temporary)
        try:
            file = self._fs.open(temporary, create=True)
            size = 0
            for lines in _pieces(self.entries()):
                file.write(size, lines)
                size += len(lines)
            file.fsync()
            self._fs.rename(temporary, self._path, file)
        except OSError:
            with suppress(OSError):
                self._fs.remove(temporary)
            raise
        self._file, self._size, self._live_bytes, self._torn = file, size, size, False
        self._rewrite_at = _REWRITE_BYTES_MIN
        # Until the new name is fsynced, a power loss restores the old file.
        self._name_unsynced = True
        self._unflushed = max(1, self._unflushed)
        self.flush()

    # -- lookups

    def fetch(self, group_id: str, topic: str, partition: int) -> int | None:
        """Returns the last committed offset; None if no offset was committed."""
        return self._offsets.get((group_id, topic, partition))

    def entries(self) -> Iterator[OldOffset]:
        """Yields the last committed offset of each group and partition."""
        for (group_id, topic, partition), offset in self._offsets.items():
            yield group_id, topic, partition, offset

    # -- inside

    def _opened(self) -> File:
        if self._file is None:
            self._name_unsynced = not self._fs.exists(self._path)
            self._file = self._fs.open(self._path, create=True)
            self._size = self._file.size()
        return self._file

    def _read(self) -> None:
        data = read_whole(self._fs, self._path)
        whole, end, torn = data.rpartition(b"\n")
        sizes: dict[tuple[str, str, int], int] = {}
        for number, line in enumerate(whole.splitlines(), 1):
            group_id, topic, partition, offset = self._parse(line, number)
            self._offsets[group_id, topic, partition] = offset
            sizes[group_id, topic, partition] = len(line) + 1
        self._size = len(whole) + len(end)
        self._live_bytes = sum(sizes.values())
        if torn or self.outgrown:
            self.rewrite()

    def _parse(self, line: bytes, number: int) -> OldOffset:
        damaged = f"{self._path} is damaged in line {number}: restore the file from a copy"
        try:
            group_id, topic, partition, offset = json.loads(line)
        except ValueError:
            raise BadDirectory(damaged) from None
        if not (isinstance(group_id, str) and isinstance(topic, str)):
            raise BadDirectory(damaged)
        return group_id, topic, int(partition), int(offset)


def _line(group_id: str, topic: str, partition: int, offset: int) -> bytes:
    return json.dumps([group_id, topic, partition, offset]).encode() + b"\n"


def _pieces(entries: Iterable[OldOffset]) -> Iterator[bytes]:
    """Yields the JSON lines of the entries, joined into byte strings of about `_BYTES_AT_ONCE`
    bytes."""
    piece = bytearray()
    for entry in entries:
        piece += _line(*entry)
        if len(piece) >= _BYTES_AT_ONCE:
            yield bytes(piece)
            piece.clear()
    if piece:
        yield bytes(piece)


class OldCommits:
    """Writes OffsetCommit v0 requests into the file. Implements `OldOffsets`. `SharedWrites`
    combines concurrent writes."""

    def __init__(
        self,
        time: Time,
        paths: FileConsumerPaths,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        flush_messages: Callable[[], int],
        kept: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        """``flush_messages`` is called before each write, and returns the current flush.messages of
        ``__consumer_offsets``.

        ``kept`` is called once, after the first write. It records that the file exists, so that
        later starts report a missing file.
        """
        self._time = time
        self._paths = paths
        self._flush_messages = flush_messages
        self._kept: Callable[[], Coroutine[Any, Any, None]] | None = kept
        self._writes = SharedWrites(self._write, spawn, self._shorten)

    def keep(self, entries: list[OldOffset]) -> asyncio.Future[Exception | None]:
        return self._writes.keep(entries)

    def fetch(self, group_id: str, places: Sequence[Place]) -> asyncio.Future[Mapping[Place, int]]:
        done: asyncio.Future[Mapping[Place, int]] = asyncio.get_running_loop().create_future()
        kept = {place: self._paths.fetch(group_id, *place) for place in places}
        done.set_result({place: offset for place, offset in kept.items() if offset is not None})
        return done

    async def _write(self, entries: list[OldOffset]) -> None:
        await self._time.in_thread(self._paths.write, entries, self._flush_messages())
        self._paths.take(entries)
        if self._kept is not None:
            await self._kept()
            self._kept = None

    async def _shorten(self) -> None:
        if self._paths.outgrown:
            try:
                await self._time.in_thread(self._paths.rewrite)
            except OSError as error:
                logger.warning(
                    "file consumers.offsets (offsets of OffsetCommit v0) can't be rewritten",
                    error=str(error),
                )

    async def stop(self) -> None:
        try:
            await self._time.in_thread(self._paths.flush)
        except OSError as error:
            logger.error(
                "offsets of OffsetCommit v0 can't be flushed to the disk", error=str(error)
            )
