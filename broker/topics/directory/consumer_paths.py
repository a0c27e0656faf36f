"""The offsets of OffsetCommit and OffsetFetch v0, which Kafka kept in ZooKeeper's consumer paths.

A cluster keeps them in ZooKeeper, at ``/consumers/GROUP/offsets/TOPIC/PARTITION``
(`broker/cluster/topics/consumer_paths.py`). A broker by itself keeps them in ``consumers.offsets``
of its data directory: a line of JSON for each commit of a partition, ``["group", "topic",
partition, offset]``, the last one of a key being its value (docs/formats/registry.md). These
offsets and those of ``__consumer_offsets`` never mix: they have no metadata, no expiry and no
generation. Source: Kafka 0.8.1 to 1.0, KafkaApis.handleOffsetCommit.
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
"""Below this length the file is not worth rewriting."""
_BYTES_AT_ONCE = 1 << 20


class FileConsumerPaths:
    """An append-only file, folded into memory when it is opened.

    Only one thread at a time may write. Raises BadDirectory when the file holds what no Muster
    wrote.
    """

    def __init__(self, fs: FileSystem, directory: str) -> None:
        self._fs = fs
        self._directory = directory
        self._path = os.path.join(directory, FILE)
        self._offsets: dict[tuple[str, str, int], int] = {}
        self._live_bytes = 0
        """Bytes of the lines that are each key's last, but for a change of an offset's digits."""
        self._unflushed = 0
        """Lines that no fsync has seen."""
        self._file: File | None = None
        self._size = 0
        """Bytes of whole lines; the file has more only while it is torn."""
        self._torn = False
        """A write has failed and what it left could not be cut off."""
        self._name_unsynced = False
        self._failed: OSError | None = None
        """The failed fsync: the state of the disk is unknown, and nothing more is written."""
        self._rewrite_at = _REWRITE_BYTES_MIN
        if fs.exists(self._path):
            self._read()

    # -- changes

    def write(self, entries: Sequence[OldOffset], flush_messages: int) -> None:
        """Keeps offsets, so that they survive ``kill -9``; outside the loop, one write at a time.

        They are fsynced when so many are not (`flush.messages`). OSError: none of them is kept.
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
            self._torn = True  # half a line would make the next one unreadable
            with suppress(OSError):
                file.truncate(self._size)
                self._torn = False
            raise
        self._size += sum(map(len, lines))
        added = {entry[:3]: len(line) for entry, line in zip(entries, lines, strict=True)}
        self._live_bytes += sum(size for key, size in added.items() if key not in self._offsets)
        self._unflushed += len(entries)
        # A file that was begun is missed when it is gone: its first commit is on the disk.
        if self._name_unsynced or self._unflushed >= flush_messages:
            self.flush()

    def flush(self) -> None:
        """Brings what was written to the disk. OSError, for good."""
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
        """From now on `fetch` answers what was written."""
        for group_id, topic, partition, offset in entries:
            self._offsets[group_id, topic, partition] = offset

    @property
    def outgrown(self) -> bool:
        """Whether most bytes of the file were superseded, and `rewrite` is worth its while."""
        return self._size > max(self._rewrite_at, 2 * self._live_bytes)

    def rewrite(self) -> None:
        """Keeps the last offset of each key alone; like `write`. OSError: all is as it was."""
        self._rewrite_at = 2 * self._size  # should it fail
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
        # Until its name is on the disk a loss of power brings the old file back.
        self._name_unsynced = True
        self._unflushed = max(1, self._unflushed)
        self.flush()

    # -- lookups

    def fetch(self, group_id: str, topic: str, partition: int) -> int | None:
        """The last committed offset, None if none was committed."""
        return self._offsets.get((group_id, topic, partition))

    def entries(self) -> Iterator[OldOffset]:
        """Every (group, topic, partition, offset)."""
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
        try:
            group_id, topic, partition, offset = json.loads(line)
        except ValueError:
            raise BadDirectory(f"{self._path} is damaged in line {number}") from None
        if not (isinstance(group_id, str) and isinstance(topic, str)):
            raise BadDirectory(f"{self._path} is damaged in line {number}")
        return group_id, topic, int(partition), int(offset)


def _line(group_id: str, topic: str, partition: int, offset: int) -> bytes:
    return json.dumps([group_id, topic, partition, offset]).encode() + b"\n"


def _pieces(entries: Iterable[OldOffset]) -> Iterator[bytes]:
    """The lines of entries, about `_BYTES_AT_ONCE` at a time."""
    piece = bytearray()
    for entry in entries:
        piece += _line(*entry)
        if len(piece) >= _BYTES_AT_ONCE:
            yield bytes(piece)
            piece.clear()
    if piece:
        yield bytes(piece)


class OldCommits:
    """Writes commits of version 0 into the file. See `OldOffsets` and `SharedWrites`."""

    def __init__(
        self,
        time: Time,
        paths: FileConsumerPaths,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        flush_messages: Callable[[], int],
        kept: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        """``flush_messages`` is asked for the setting of the offsets topic before each write,
        ``kept`` runs once when there is a file that must be missed if it is gone."""
        self._time = time
        self._paths = paths
        self._flush_messages = flush_messages
        self._kept: Callable[[], Coroutine[Any, Any, None]] | None = kept
        self._writes = SharedWrites(self._write, spawn, self._shorten)

    def keep(self, entries: list[OldOffset]) -> asyncio.Future[Exception | None]:
        """See OldOffsets."""
        return self._writes.keep(entries)

    def fetch(self, group_id: str, places: Sequence[Place]) -> asyncio.Future[Mapping[Place, int]]:
        """See OldOffsets."""
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
        """Rewrites the file if most of it is old."""
        if self._paths.outgrown:
            try:
                await self._time.in_thread(self._paths.rewrite)
            except OSError as error:
                logger.warning("consumers.offsets can't be compacted", error=str(error))

    async def stop(self) -> None:
        """Brings to the disk what was written."""
        try:
            await self._time.in_thread(self._paths.flush)
        except OSError as error:
            logger.error("offsets of OffsetCommit v0 may not be on the disk", error=str(error))
