"""Limits the number of open descriptors, for any number of files.

A broker with ten thousand partitions has tens of thousands of files, and uses few of them at a
time. The descriptor of a file that was not used recently is closed. The file is reopened when it is
used again. A file whose name will be removed must be kept open (`BoundedFile.keep`), because it
can't be reopened afterwards.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import TypeVar
from weakref import ref

from log.files.os_file import OsFile
from protocol.buffer import Buffer

T = TypeVar("T")

_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)


class OpenFiles:
    """A set of files of which at most ``limit`` are open. Files whose descriptor must stay open,
    and files that are being read, do not count.

    The clock algorithm selects the next file to close. It skips each file that was used since the
    algorithm last reached this file.
    """

    def __init__(self, limit: int) -> None:
        self.limit = max(1, limit)
        self.lock = Lock()
        """The lock for opening, closing and renaming files. Reads and writes do not acquire it."""
        self._clock: deque[ref[BoundedFile]] = deque()
        """Weak references to the open files, except files whose descriptor must stay open. An
        object may already be deleted; then its reference is dead."""

    def open(self, path: str, create: bool) -> BoundedFile:
        with self.lock:
            file = self._open(path, create)
            bounded = BoundedFile(self, path, file)
            self._clock.append(ref(bounded))
        return bounded

    def reopen(self, bounded: BoundedFile) -> OsFile:
        """Reopens a file whose descriptor was closed. Raises OSError."""
        with self.lock:
            return self.reopen_locked(bounded)

    def reopen_locked(self, bounded: BoundedFile) -> OsFile:
        """Reopens a file in the same way as `reopen`, for a caller that has already acquired the
        lock."""
        file = bounded.file
        if file is None:
            file = self._open(bounded.path, False)
            if file.identity() != bounded.identity:
                raise OSError(errno.ESTALE, "the file was replaced", bounded.path)
            bounded.file = file
            self._clock.append(ref(bounded))
        return file

    def count(self) -> int:
        with self.lock:
            return sum(self._closable(entry) is not None for entry in self._clock)

    def with_a_descriptor(self, work: Callable[[], T]) -> T:
        """Returns the result of ``work``. If the process has no free descriptor, closes files and
        calls ``work`` again."""
        with self.lock:
            return self._with_a_descriptor(work)

    def _with_a_descriptor(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except OSError as error:
            if error.errno not in _NO_DESCRIPTOR:
                raise
        self._make_room(len(self._clock) // 2)  # connections use too many
        return work()

    def _open(self, path: str, create: bool) -> OsFile:
        self._make_room(self.limit - 1)
        return self._with_a_descriptor(lambda: OsFile(path, create))

    def _make_room(self, most: int) -> None:
        clock = self._clock
        passes = 2 * len(clock)
        while len(clock) > most and passes:
            passes -= 1
            entry = clock.popleft()
            bounded = self._closable(entry)
            if bounded is None:
                continue
            if bounded.used:
                bounded.used = False
                clock.append(entry)
            else:
                bounded.file = None  # a reader has its own reference

    @staticmethod
    def _closable(entry: ref[BoundedFile]) -> BoundedFile | None:
        bounded = entry()
        return None if bounded is None or bounded.kept or bounded.file is None else bounded


class BoundedFile:
    """A `File` whose descriptor may be closed while the file is not used, to save descriptors. The
    next use opens the file again.

    Linux may write unsynced data to the disk while the file has no descriptor. If this write fails,
    Linux (since 4.17) reports the error to the next fsync, even if the descriptor was opened later.
    This holds as long as Linux keeps the file in its memory.
    """

    __slots__ = ("__weakref__", "_files", "file", "identity", "kept", "path", "used")

    def __init__(self, files: OpenFiles, path: str, file: OsFile) -> None:
        self._files = files
        self.path = path
        self.file: OsFile | None = file
        self.identity = file.identity()
        self.kept = False
        """True if the descriptor must stay open while this object is referenced."""
        self.used = True

    def opened(self) -> OsFile:
        self.used = True
        file = self.file
        return self._files.reopen(self) if file is None else file

    def keep(self) -> None:
        with self._files.lock:
            self.kept = True
            self._files.reopen_locked(self)

    def size(self) -> int:
        return self.opened().size()

    def read(self, position: int, length: int) -> bytes:
        self.used = True
        return (self.file or self._files.reopen(self)).read(position, length)

    def read_cached(self, position: int, length: int) -> bytes | bytearray | None:
        """Implements File.read_cached. Returns None also if the file would have to be reopened,
        because reopening may wait for the disk."""
        self.used = True
        file = self.file
        return None if file is None else file.read_cached(position, length)

    def send_cached(self, socket_descriptor: int, position: int, length: int) -> int:
        self.used = True
        file = self.file
        return 0 if file is None else file.send_cached(socket_descriptor, position, length)

    def write(self, position: int, data: Buffer) -> None:
        self.used = True
        (self.file or self._files.reopen(self)).write(position, data)

    def truncate(self, size: int) -> None:
        self.opened().truncate(size)

    def reserve(self, size: int) -> None:
        self.opened().reserve(size)

    def fsync(self) -> None:
        self.opened().fsync()
