"""Files: the two protocols through which all of `log/` does its I/O, and the real file system.

Tests put a simulated one in its place that loses power, fills up and fails.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from typing import Protocol

from log.errors import DirectoryLocked

Buffer = bytes | bytearray | memoryview

_KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE of Linux


class File(Protocol):
    """An open file, read and written at explicit positions, from any thread.

    The descriptor closes when the last reference to the file goes, not before: a reader that holds
    a slice of a deleted segment reads on.
    """

    @property
    def path(self) -> str:
        """Where the file was opened; a later rename does not show."""

    def fileno(self) -> int:
        """The descriptor, for sendfile; valid as long as the file is referenced."""

    def size(self) -> int:
        """Bytes in the file."""

    def read(self, position: int, length: int) -> bytes:
        """At most ``length`` bytes from ``position``, fewer only at the end of the file."""

    def write(self, position: int, data: Buffer) -> None:
        """Write all of ``data`` at ``position``, in one system call when the system takes it.

        Raises OSError; some of the bytes may be in the file then.
        """

    def truncate(self, size: int) -> None:
        """Cut the file, or pad it with zeros, to ``size`` bytes; give up what was reserved."""

    def reserve(self, size: int) -> None:
        """Take the disk's room for the first ``size`` bytes; the file's length stays."""

    def fsync(self) -> None:
        """Return when data and size are on the disk; after an OSError nobody knows what is."""


class Lock(Protocol):
    """A directory that is ours until ``release``."""

    def release(self) -> None:
        """Give the directory up."""


class FileSystem(Protocol):
    """What `log/` asks of a file system. Everything raises OSError as the system does."""

    def open(self, path: str, create: bool = False) -> File:
        """Open for reading and writing; with ``create`` make the file if it is missing."""

    def exists(self, path: str) -> bool:
        """Whether a file or directory is there."""

    def list(self, directory: str) -> list[str]:
        """Names in a directory, sorted."""

    def modified_ms(self, path: str) -> int:
        """Last modification in wall milliseconds."""

    def rename(self, old: str, new: str) -> None:
        """Rename, replacing what is there; lasting once the directory is fsynced."""

    def remove(self, path: str) -> None:
        """Remove a file; a missing one is no error."""

    def make_directory(self, path: str) -> None:
        """Make a directory with its parents; one that is there is no error."""

    def remove_directory(self, path: str) -> None:
        """Remove a directory with all that is in it."""

    def fsync_directory(self, path: str) -> None:
        """Return when the names in a directory are on the disk."""

    def lock(self, directory: str) -> Lock:
        """Take Kafka's ``.lock`` file; raises DirectoryLocked when another process has it."""


def read_whole(fs: FileSystem, path: str) -> bytes:
    """All bytes of a small file."""
    file = fs.open(path)
    return file.read(0, file.size())


def write_whole(fs: FileSystem, path: str, data: bytes, *, durable: bool = True) -> None:
    """Replace a small file so that a reader, or a crash, finds the old bytes or the new ones.

    With ``durable`` they are on the disk when this returns; without, a loss of power may leave
    anything, and the reader must see it.
    """
    temporary = path + ".tmp"
    fs.remove(temporary)
    file = fs.open(temporary, create=True)
    file.write(0, data)
    if durable:
        file.fsync()
    fs.rename(temporary, path)
    if durable:
        fs.fsync_directory(os.path.dirname(path))


class OsFile:
    """A file of the operating system."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: str, create: bool) -> None:
        self._descriptor = -1
        self.path = path
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        self._descriptor = os.open(path, flags, 0o644)

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def fileno(self) -> int:
        """See File."""
        return self._descriptor

    def size(self) -> int:
        """See File."""
        return os.fstat(self._descriptor).st_size

    def read(self, position: int, length: int) -> bytes:
        """See File."""
        data = os.pread(self._descriptor, length, position)
        if len(data) == length or not data:
            return data
        parts = [data]  # a signal, or Linux's limit of 2 GiB a call
        got = len(data)
        while got < length:
            data = os.pread(self._descriptor, length - got, position + got)
            if not data:
                break
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def write(self, position: int, data: Buffer) -> None:
        """See File."""
        written = os.pwrite(self._descriptor, data, position)
        if written != len(data):
            self._write_rest(position, memoryview(data), written)

    def _write_rest(self, position: int, data: memoryview, written: int) -> None:
        while written < len(data):
            count = os.pwrite(self._descriptor, data[written:], position + written)
            if not count:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
            written += count

    def truncate(self, size: int) -> None:
        """See File."""
        os.ftruncate(self._descriptor, size)

    def reserve(self, size: int) -> None:
        """See File. Nothing happens where the system or its disk knows no such thing."""
        import ctypes  # 3 ms, and seldom needed

        allocate = getattr(ctypes.CDLL(None, use_errno=True), "fallocate", None)
        if allocate is None:
            return
        if allocate(self._descriptor, _KEEP_SIZE, ctypes.c_int64(0), ctypes.c_int64(size)):
            code = ctypes.get_errno()
            if code not in (errno.EOPNOTSUPP, errno.ENOSYS):
                raise OSError(code, os.strerror(code), self.path)

    def fsync(self) -> None:
        """See File."""
        os.fdatasync(self._descriptor)


class OsLock:
    """The ``.lock`` file of a data directory, held.

    flock keeps out another Muster, this process included; the POSIX lock is the kind that Java
    takes, so that Apache Kafka is kept out too.
    """

    def __init__(self, directory: str) -> None:
        self._descriptor: int | None = None
        path = os.path.join(directory, ".lock")
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise DirectoryLocked(
                    f"The data directory {directory} is in use by another process;"
                    " stop that one or give this one a directory of its own."
                ) from None
            raise
        self._descriptor = descriptor

    def release(self) -> None:
        """See Lock; a second call does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class OsFileSystem:
    """The operating system's files."""

    def open(self, path: str, create: bool = False) -> OsFile:
        """See FileSystem."""
        return OsFile(path, create)

    def exists(self, path: str) -> bool:
        """See FileSystem."""
        return os.path.exists(path)

    def list(self, directory: str) -> list[str]:
        """See FileSystem."""
        return sorted(os.listdir(directory))

    def modified_ms(self, path: str) -> int:
        """See FileSystem."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def rename(self, old: str, new: str) -> None:
        """See FileSystem."""
        os.replace(old, new)

    def remove(self, path: str) -> None:
        """See FileSystem."""
        try:
            os.remove(path)
        except FileNotFoundError:
            return

    def make_directory(self, path: str) -> None:
        """See FileSystem."""
        os.makedirs(path, exist_ok=True)

    def remove_directory(self, path: str) -> None:
        """See FileSystem."""
        shutil.rmtree(path)

    def fsync_directory(self, path: str) -> None:
        """See FileSystem."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lock(self, directory: str) -> OsLock:
        """See FileSystem."""
        return OsLock(directory)
