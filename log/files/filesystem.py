"""The interfaces `File` and `FileSystem`, through which `log/` does all I/O, and their
implementation by the operating system.

Tests use a simulated file system that loses power, becomes full and fails.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import shutil
from contextlib import suppress
from typing import NamedTuple, Protocol

from log.errors import DirectoryLocked
from log.files.open_files import BoundedFile, OpenFiles
from protocol.buffer import Buffer

OPEN_FILES_MAX = 32_768
"""The maximum number of open files. `open_files_max` returns a lower number if the process's limit
of descriptors requires it."""


class File(Protocol):
    """An open file, which any thread may read and write at explicit positions.

    The implementation may close the file's descriptor at any time and open the file again by its
    name. So a caller that reads after the name was removed must keep the result of `opened`, and a
    caller that removes the name must first call `keep`.
    """

    @property
    def path(self) -> str:
        """The path at which the file was opened. If the file was renamed by `FileSystem.rename`,
        the new path."""

    def opened(self) -> File:
        """Returns the same file as an object that keeps the descriptor open while the object is
        referenced."""

    def keep(self) -> None:
        """Opens the file, and keeps its descriptor open while this object is referenced. The caller
        must call this method before the file's name is removed or used for another file."""

    def size(self) -> int: ...

    def read(self, position: int, length: int) -> bytes:
        """Returns up to ``length`` bytes from ``position``, and fewer only at the end of the
        file."""

    def read_cached(self, position: int, length: int) -> bytes | bytearray | None:
        """Reads only from memory. Returns None if the read would wait for the disk. The result may
        have fewer bytes than requested; at the end of the file it is empty."""

    def send_cached(self, socket_descriptor: int, position: int, length: int) -> int:
        """Sends up to ``length`` bytes from ``position`` to a non-blocking socket, without a copy
        in this process. Returns the number of bytes that the socket accepted. Returns 0 if the file
        does not support this, or if not all of the bytes are in memory. Raises BlockingIOError if
        the socket is full; may raise any OSError."""

    def write(self, position: int, data: Buffer) -> None:
        """Writes all of ``data`` at ``position``, in one system call if the system accepts all
        bytes at once. Raises OSError; after an error the file may contain some of the bytes."""

    def truncate(self, size: int) -> None:
        """Truncates the file to ``size`` bytes, or pads it with zeros. Frees the reserved space."""

    def reserve(self, size: int) -> None:
        """Allocates disk space for the first ``size`` bytes. The file's length does not change."""

    def fsync(self) -> None:
        """Returns when the file's data and size are on the disk. After an OSError the state of the
        disk is unknown."""


class DiskSpace(NamedTuple):
    """The size of a disk, and the free space that this process may use, in bytes."""

    total_bytes: int
    usable_bytes: int


class Lock(Protocol):
    """A lock on a directory. The lock lasts until ``release``."""

    def release(self) -> None: ...


class FileSystem(Protocol):
    """The file system operations of `log/`. Each raises OSError in the same cases as the system
    call."""

    def open(self, path: str, create: bool = False) -> File:
        """Opens a file for reading and writing. With ``create`` a missing file is created."""

    def create_private(self, path: str) -> File:
        """Creates a file that only its owner may read. Raises FileExistsError if the file
        exists."""

    def exists(self, path: str) -> bool: ...

    def list(self, directory: str) -> list[str]: ...

    def modified_ms(self, path: str) -> int: ...

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Sets the time of a file's last modification, in wall milliseconds. The change is durable
        after an fsync of the file."""

    def rename(self, old: str, new: str, file: File | None = None) -> None:
        """Renames a file, replacing an existing file. The rename is durable after an fsync of the
        directory.

        ``file`` is the open file with the old name. It must be passed if the file will be used
        under the new name.
        """

    def link(self, old: str, new: str) -> None:
        """Creates a hard link; the name ``new`` must be unused. Raises OSError if the disk does not
        support links."""

    def remove(self, path: str) -> None:
        """Removes a file. A missing file is not an error."""

    def make_directory(self, path: str) -> None:
        """Creates a directory and its parents. An existing directory is not an error."""

    def remove_directory(self, path: str) -> None: ...

    def fsync_directory(self, path: str) -> None:
        """Returns when all created, renamed and removed names in a directory are on the disk."""

    def lock(self, directory: str) -> Lock:
        """Locks a data directory by Kafka's ``.lock`` file. Raises DirectoryLocked if another
        process has the lock."""

    def space(self, directory: str) -> DiskSpace | None:
        """Returns the space on the disk of a directory; None if it is unknown."""


def read_whole(fs: FileSystem, path: str) -> bytes:
    file = fs.open(path)
    return file.read(0, file.size())


def write_whole(fs: FileSystem, path: str, data: Buffer, *, durable: bool = True) -> None:
    """Replaces a small file, so that a reader finds either the old or the new bytes, even after a
    crash of the process.

    With ``durable`` the new bytes are on the disk when this function returns. Without ``durable`` a
    power failure may leave any content, and the reader must detect invalid content.
    """
    temporary = path + ".tmp"
    fs.remove(temporary)
    try:
        file = fs.open(temporary, create=True)
        file.write(0, data)
        if durable:
            file.fsync()
        fs.rename(temporary, path)
    except OSError:
        with suppress(OSError):
            fs.remove(temporary)  # a full disk must not keep an incomplete file
        raise
    if durable:
        fs.fsync_directory(os.path.dirname(path))


class OsLock:
    """The locked ``.lock`` file of a data directory. flock excludes other Muster brokers, even in
    the same process. The POSIX lock, which Java uses too, excludes Apache Kafka."""

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
                    f"The data directory {directory} is in use by another process: stop that"
                    " process, or use another directory."
                ) from None
            raise
        self._descriptor = descriptor

    def release(self) -> None:
        """Implements Lock.release. A second call has no effect."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def open_files_max() -> int:
    """Returns the maximum number of file descriptors for files. The process needs its other
    descriptors for sockets."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return OPEN_FILES_MAX if soft == resource.RLIM_INFINITY else min(OPEN_FILES_MAX, soft // 2)


class OsFileSystem:
    """The operating system's file system, with at most ``open_files_max()`` open files."""

    def __init__(self, open_files_max: int = OPEN_FILES_MAX) -> None:
        self.files = OpenFiles(open_files_max)

    def open(self, path: str, create: bool = False) -> File:
        return self.files.open(path, create)

    def create_private(self, path: str) -> File:
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
        os.close(self.files.with_a_descriptor(lambda: os.open(path, flags, 0o600)))
        return self.open(path)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def list(self, directory: str) -> list[str]:
        return sorted(self.files.with_a_descriptor(lambda: os.listdir(directory)))

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def rename(self, old: str, new: str, file: File | None = None) -> None:
        with self.files.lock:  # the lock prevents a reopening by the old name
            os.replace(old, new)
            if isinstance(file, BoundedFile):
                file.path = new

    def link(self, old: str, new: str) -> None:
        os.link(old, new)

    def remove(self, path: str) -> None:
        try:
            os.remove(path)
        except FileNotFoundError:
            return

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def remove_directory(self, path: str) -> None:
        shutil.rmtree(path)

    def fsync_directory(self, path: str) -> None:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        descriptor = self.files.with_a_descriptor(lambda: os.open(path, flags))
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lock(self, directory: str) -> OsLock:
        return OsLock(directory)

    def space(self, directory: str) -> DiskSpace | None:
        found = os.statvfs(directory)
        return DiskSpace(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)
