"""The files of one run of a broker, on a disk with simulated faults.

`FaultyFiles` wraps files in memory or real files. After `kill`, threads of the killed broker that
still run can't change a file, and the broker's directory locks are released. The next run gets a
new `FaultyFiles` on the same disk, with the same faults.
"""

from __future__ import annotations

import errno
import os
from threading import RLock

from broker.test_mode.files.disk_faults import DiskFaults
from log.files.filesystem import DiskSpace, File, FileSystem, Lock
from protocol.buffer import Buffer


class FaultyFile:
    """An open file on a disk with faults; implements `File`."""

    __slots__ = ("_file", "_files")

    def __init__(self, files: FaultyFiles, file: File) -> None:
        self._files = files
        self._file = file

    @property
    def file(self) -> File:
        """The wrapped file, which has no faults."""
        return self._file

    @property
    def path(self) -> str:
        return self._file.path

    def opened(self) -> FaultyFile:
        return FaultyFile(self._files, self._file.opened())

    def keep(self) -> None:
        self._file.keep()

    def size(self) -> int:
        return self._file.size()

    def read(self, position: int, length: int) -> bytes:
        return self._file.read(position, length)

    def read_cached(self, position: int, length: int) -> bytes | bytearray | None:
        return self._file.read_cached(position, length)

    def send_cached(self, socket_descriptor: int, position: int, length: int) -> int:
        return self._file.send_cached(socket_descriptor, position, length)

    def write(self, position: int, data: Buffer) -> None:
        """Implements `File.write`. On a full disk, only a write within the current file size
        succeeds."""
        with self._files.changing(self._file.path) as faults:
            if faults.is_full and position + len(data) > self._file.size():
                faults.taking_more(self._file.path)
            self._file.write(position, data)

    def truncate(self, size: int) -> None:
        with self._files.changing(self._file.path) as faults:
            if faults.is_full and size > self._file.size():
                faults.taking_more(self._file.path)
            self._file.truncate(size)

    def reserve(self, size: int) -> None:
        with self._files.changing(self._file.path) as faults:
            if faults.is_full and size > self._file.size():
                faults.taking_more(self._file.path)
            self._file.reserve(size)

    def fsync(self) -> None:
        self._files.check(self._file.path).syncing(self._file.path)
        self._file.fsync()


class _Change:
    """A context manager for one change of a file. If another thread calls `kill`, the kill takes
    effect before or after the change, but not during the change."""

    __slots__ = ("_files", "_path")

    def __init__(self, files: FaultyFiles, path: str) -> None:
        self._files = files
        self._path = path

    def __enter__(self) -> DiskFaults:
        self._files.lock_of_changes.acquire()
        try:
            return self._files.check(self._path)
        except BaseException:
            self._files.lock_of_changes.release()
            raise

    def __exit__(self, *_: object) -> None:
        self._files.lock_of_changes.release()


class FaultyFiles:
    """Implements `log.files.filesystem.FileSystem` for one run of a broker."""

    def __init__(self, files: FileSystem, faults: DiskFaults) -> None:
        self._files = files
        self.faults = faults
        self.lock_of_changes = RLock()
        """The lock that each change of a file acquires, so that `kill` can't interrupt a change."""
        self._is_dead = False
        self._locks: list[Lock] = []

    def kill(self) -> None:
        """Rejects all later changes and releases the directory locks."""
        with self.lock_of_changes:
            self._is_dead = True
            for lock in self._locks:
                lock.release()

    def check(self, path: str) -> DiskFaults:
        """Returns the faults of the disk. Raises OSError if the broker was killed."""
        if self._is_dead:
            raise OSError(errno.EIO, "the broker that opened the file was killed", path)
        return self.faults

    def changing(self, path: str) -> _Change:
        """Returns a context manager for one change of the file ``path``. Raises OSError in the
        ``with`` statement if the broker was killed."""
        return _Change(self, path)

    def open(self, path: str, create: bool = False) -> FaultyFile:
        if not create:
            return FaultyFile(self, self._files.open(path))
        with self.changing(path) as faults:
            if faults.is_full and not self._files.exists(path):
                faults.taking_more(path)
            return FaultyFile(self, self._files.open(path, create))

    def create_private(self, path: str) -> FaultyFile:
        with self.changing(path) as faults:
            if faults.is_full and not self._files.exists(path):
                faults.taking_more(path)
            return FaultyFile(self, self._files.create_private(path))

    def exists(self, path: str) -> bool:
        return self._files.exists(path)

    def list(self, directory: str) -> list[str]:
        return self._files.list(directory)

    def modified_ms(self, path: str) -> int:
        return self._files.modified_ms(path)

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self._files.set_modified_ms(path, modified_ms)

    def rename(self, old: str, new: str, file: File | None = None) -> None:
        with self.changing(new):
            self._files.rename(old, new, file.file if isinstance(file, FaultyFile) else file)

    def link(self, old: str, new: str) -> None:
        with self.changing(new) as faults:
            if faults.is_full and not self._files.exists(new):
                faults.taking_more(new)
            self._files.link(old, new)

    def remove(self, path: str) -> None:
        with self.changing(path):
            self._files.remove(path)

    def make_directory(self, path: str) -> None:
        with self.changing(path) as faults:
            if faults.is_full and not self._files.exists(path):
                faults.taking_more(path)
            self._files.make_directory(path)

    def remove_directory(self, path: str) -> None:
        with self.changing(path):
            self._files.remove_directory(path)

    def fsync_directory(self, path: str) -> None:
        self.check(path).syncing(path)
        self._files.fsync_directory(path)

    def lock(self, directory: str) -> Lock:
        with self.changing(os.path.join(directory, ".lock")):
            lock = self._files.lock(directory)
            self._locks.append(lock)
            return lock

    def space(self, directory: str) -> DiskSpace | None:
        found = self._files.space(directory)
        if found is None or not self.faults.is_full:
            return found
        return DiskSpace(found.total_bytes, 0)
