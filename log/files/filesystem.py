"""The interfaces `File` and `FileSystem`, through which `log/` does all I/O, and the real file
system.

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
"""The maximum number of open files, unless the process's limit of descriptors is lower."""


class File(Protocol):
    """An open file, which any thread may read and write at explicit positions.

    The descriptor of the file may be closed, and reopened by the file's name. A caller that must be
    able to read after the name was removed keeps the result of `opened`; a caller that removes the
    name calls `keep` first.
    """

    @property
    def path(self) -> str:
        """The path at which the file was opened, or its new path after a `FileSystem.rename` with
        this file."""

    def opened(self) -> File:
        """Returns the same file; its descriptor stays open as long as the returned object is
        referenced."""

    def keep(self) -> None:
        """Opens the file, and keeps its descriptor open as long as the object is referenced.

        The caller must call this method before the file's name is removed or used for another file.
        """

    def size(self) -> int:
        """The file's length in bytes."""

    def read(self, position: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``position``, fewer only at the end of the file."""

    def read_cached(self, position: int, length: int) -> bytes | bytearray | None:
        """Reads only from memory; returns None if the read would wait for the disk.

        The result may have fewer bytes than requested; at the end of the file it is empty.
        """

    def write(self, position: int, data: Buffer) -> None:
        """Writes all of ``data`` at ``position``, in one system call if the system accepts all
        bytes at once.

        Raises OSError; after an error the file may have some of the bytes.
        """

    def truncate(self, size: int) -> None:
        """Truncates the file, or pads it with zeros, to ``size`` bytes; frees the reserved
        space."""

    def reserve(self, size: int) -> None:
        """Allocates disk space for the first ``size`` bytes; the file's length does not change."""

    def fsync(self) -> None:
        """Returns when the file's data and size are on the disk. After an OSError the state of the
        disk is unknown."""


class DiskSpace(NamedTuple):
    """The size of a disk, and the free space on the disk that this process may use."""

    total_bytes: int
    usable_bytes: int


class Lock(Protocol):
    """A lock on a directory, which lasts until ``release``."""

    def release(self) -> None:
        """Releases the lock, so that another process can lock the directory."""


class FileSystem(Protocol):
    """The file system operations of `log/`. Each raises OSError like the operating system's
    operation."""

    def open(self, path: str, create: bool = False) -> File:
        """Opens a file for reading and writing; with ``create`` a missing file is created."""

    def create_private(self, path: str) -> File:
        """Create a file that only its owner may read; raises FileExistsError if the file exists."""

    def exists(self, path: str) -> bool:
        """Whether a file or directory exists."""

    def list(self, directory: str) -> list[str]:
        """The names in a directory, sorted."""

    def modified_ms(self, path: str) -> int:
        """The time of the last modification in wall milliseconds."""

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Set the time of a file's last modification, in wall milliseconds; the change is durable
        after an fsync of the file."""

    def rename(self, old: str, new: str, file: File | None = None) -> None:
        """Renames a file, replacing an existing file; the rename is durable after an fsync of the
        directory.

        ``file`` is the open file with the old name; it must be passed if the file will be used
        under the new name.
        """

    def link(self, old: str, new: str) -> None:
        """Creates a hard link with an unused name. Raises OSError if the disk does not support
        links."""

    def remove(self, path: str) -> None:
        """Remove a file; a missing file is not an error."""

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents; an existing directory is not an error."""

    def remove_directory(self, path: str) -> None:
        """Remove a directory with its contents."""

    def fsync_directory(self, path: str) -> None:
        """Return when the names in a directory are on the disk."""

    def lock(self, directory: str) -> Lock:
        """Lock Kafka's ``.lock`` file; raises DirectoryLocked if another process has the lock."""

    def space(self, directory: str) -> DiskSpace | None:
        """The space on the disk of a directory; None if unknown."""


def read_whole(fs: FileSystem, path: str) -> bytes:
    """Returns all bytes of a small file."""
    file = fs.open(path)
    return file.read(0, file.size())


def write_whole(fs: FileSystem, path: str, data: Buffer, *, durable: bool = True) -> None:
    """Replaces a small file, so that a reader, also after a crash, finds either the old or the new
    bytes.

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
    """The locked ``.lock`` file of a data directory.

    flock excludes other Muster brokers, also in this process; the POSIX lock, which Java uses too,
    excludes Apache Kafka.
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
                    f"The data directory {directory} is in use by another process: stop that"
                    " process, or use another directory."
                ) from None
            raise
        self._descriptor = descriptor

    def release(self) -> None:
        """Implements Lock.release; a second call has no effect."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def open_files_max() -> int:
    """Returns how many of the process's descriptors are for files; the other descriptors are for
    sockets."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return OPEN_FILES_MAX if soft == resource.RLIM_INFINITY else min(OPEN_FILES_MAX, soft // 2)


class OsFileSystem:
    """The operating system's file system, with at most ``open_files_max`` open files."""

    def __init__(self, open_files_max: int = OPEN_FILES_MAX) -> None:
        self.files = OpenFiles(open_files_max)

    def open(self, path: str, create: bool = False) -> File:
        """Implements FileSystem.open."""
        return self.files.open(path, create)

    def create_private(self, path: str) -> File:
        """Implements FileSystem.create_private."""
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
        os.close(self.files.with_a_descriptor(lambda: os.open(path, flags, 0o600)))
        return self.open(path)

    def exists(self, path: str) -> bool:
        """Implements FileSystem.exists."""
        return os.path.exists(path)

    def list(self, directory: str) -> list[str]:
        """Implements FileSystem.list."""
        return sorted(self.files.with_a_descriptor(lambda: os.listdir(directory)))

    def modified_ms(self, path: str) -> int:
        """Implements FileSystem.modified_ms."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Implements FileSystem.set_modified_ms."""
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def rename(self, old: str, new: str, file: File | None = None) -> None:
        """Implements FileSystem.rename."""
        with self.files.lock:  # the lock prevents a reopening by the old name
            os.replace(old, new)
            if isinstance(file, BoundedFile):
                file.path = new

    def link(self, old: str, new: str) -> None:
        """Implements FileSystem.link."""
        os.link(old, new)

    def remove(self, path: str) -> None:
        """Implements FileSystem.remove."""
        try:
            os.remove(path)
        except FileNotFoundError:
            return

    def make_directory(self, path: str) -> None:
        """Implements FileSystem.make_directory."""
        os.makedirs(path, exist_ok=True)

    def remove_directory(self, path: str) -> None:
        """Implements FileSystem.remove_directory."""
        shutil.rmtree(path)

    def fsync_directory(self, path: str) -> None:
        """Implements FileSystem.fsync_directory."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        descriptor = self.files.with_a_descriptor(lambda: os.open(path, flags))
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lock(self, directory: str) -> OsLock:
        """Implements FileSystem.lock."""
        return OsLock(directory)

    def space(self, directory: str) -> DiskSpace | None:
        """Implements FileSystem.space."""
        found = os.statvfs(directory)
        return DiskSpace(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)
