"""The two protocols through which `log/` does all its I/O, and the real file system.

Tests use a simulated one that loses power, fills up and fails.
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
"""How many files are open at a time, unless the process's limit of descriptors is lower."""


class File(Protocol):
    """An open file, read and written at explicit positions, from any thread.

    Its descriptor may be closed, and reopened by its name. A caller that must be able to read even
    if the name is gone holds `opened`; a caller that removes the name calls `keep` first.
    """

    @property
    def path(self) -> str:
        """Where the file was opened, or its new path after a rename that was passed this file."""

    def opened(self) -> File:
        """The same file, whose descriptor stays open while the returned object is referenced."""

    def keep(self) -> None:
        """Open the file, and keep its descriptor open until the last reference is gone.

        Must be called before its name is removed or given to another file.
        """

    def size(self) -> int:
        """The file's length in bytes."""

    def read(self, position: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``position``, fewer only at the end of the file."""

    def read_cached(self, position: int, length: int) -> bytes | bytearray | None:
        """Like `read`, from memory only: None when the disk would have to be waited for.

        May return fewer bytes than requested; none at the end of the file.
        """

    def write(self, position: int, data: Buffer) -> None:
        """Write all of ``data`` at ``position``, in one system call if the system accepts it whole.

        Raises OSError; the file may then have some of the bytes.
        """

    def truncate(self, size: int) -> None:
        """Truncate the file, or pad it with zeros, to ``size`` bytes; free the reserved space."""

    def reserve(self, size: int) -> None:
        """Allocate disk space for the first ``size`` bytes; the file's length stays."""

    def fsync(self) -> None:
        """Return when data and size are on the disk; after an OSError the state of the disk is
        unknown."""


class DiskSpace(NamedTuple):
    """The size of a disk, and how much of it this process may still use."""

    total_bytes: int
    usable_bytes: int


class Lock(Protocol):
    """A lock on a directory, held until ``release``."""

    def release(self) -> None:
        """Release the directory."""


class FileSystem(Protocol):
    """The file system operations of `log/`. Each raises OSError as the system does."""

    def open(self, path: str, create: bool = False) -> File:
        """Open for reading and writing; with ``create`` create a missing file."""

    def create_private(self, path: str) -> File:
        """Create a file that only its owner may read; FileExistsError if it exists."""

    def exists(self, path: str) -> bool:
        """Whether a file or directory exists."""

    def list(self, directory: str) -> list[str]:
        """The names in a directory, sorted."""

    def modified_ms(self, path: str) -> int:
        """The time of the last modification in wall milliseconds."""

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Set the time of a file's last modification; durable once the file is fsynced."""

    def rename(self, old: str, new: str, file: File | None = None) -> None:
        """Rename, replacing an existing file; durable once the directory is fsynced.

        ``file`` is the open file with the old name, if it is to be used under the new one.
        """

    def link(self, old: str, new: str) -> None:
        """Create a hard link with an unused name; OSError where the disk does not support it."""

    def remove(self, path: str) -> None:
        """Remove a file; a missing file is not an error."""

    def make_directory(self, path: str) -> None:
        """Create a directory with its parents; an existing one is not an error."""

    def remove_directory(self, path: str) -> None:
        """Remove a directory with its contents."""

    def fsync_directory(self, path: str) -> None:
        """Return when the names in a directory are on the disk."""

    def lock(self, directory: str) -> Lock:
        """Lock Kafka's ``.lock`` file; raises DirectoryLocked when another process has it."""

    def space(self, directory: str) -> DiskSpace | None:
        """The space of the disk that a directory is on; None where it is unknown."""


def read_whole(fs: FileSystem, path: str) -> bytes:
    """All bytes of a small file."""
    file = fs.open(path)
    return file.read(0, file.size())


def write_whole(fs: FileSystem, path: str, data: Buffer, *, durable: bool = True) -> None:
    """Replace a small file so that a reader, or a crash, finds the old bytes or the new ones.

    With ``durable`` the new ones are on the disk when this returns. Without it a loss of power may
    leave any content, and the reader must detect that.
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
    """The held ``.lock`` file of a data directory.

    flock excludes other Muster brokers, in this process too; the POSIX lock is the kind that Java
    uses, so it excludes Apache Kafka.
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
        """See Lock; a second call does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def open_files_max() -> int:
    """How many of the process's descriptors are for files; the others are for sockets."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return OPEN_FILES_MAX if soft == resource.RLIM_INFINITY else min(OPEN_FILES_MAX, soft // 2)


class OsFileSystem:
    """The operating system's files, at most ``open_files_max`` of them open at a time."""

    def __init__(self, open_files_max: int = OPEN_FILES_MAX) -> None:
        self.files = OpenFiles(open_files_max)

    def open(self, path: str, create: bool = False) -> File:
        """See FileSystem."""
        return self.files.open(path, create)

    def create_private(self, path: str) -> File:
        """See FileSystem."""
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
        os.close(self.files.with_a_descriptor(lambda: os.open(path, flags, 0o600)))
        return self.open(path)

    def exists(self, path: str) -> bool:
        """See FileSystem."""
        return os.path.exists(path)

    def list(self, directory: str) -> list[str]:
        """See FileSystem."""
        return sorted(self.files.with_a_descriptor(lambda: os.listdir(directory)))

    def modified_ms(self, path: str) -> int:
        """See FileSystem."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """See FileSystem."""
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def rename(self, old: str, new: str, file: File | None = None) -> None:
        """See FileSystem."""
        with self.files.lock:  # the lock prevents a reopening by the old name
            os.replace(old, new)
            if isinstance(file, BoundedFile):
                file.path = new

    def link(self, old: str, new: str) -> None:
        """See FileSystem."""
        os.link(old, new)

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
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        descriptor = self.files.with_a_descriptor(lambda: os.open(path, flags))
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lock(self, directory: str) -> OsLock:
        """See FileSystem."""
        return OsLock(directory)

    def space(self, directory: str) -> DiskSpace | None:
        """See FileSystem."""
        found = os.statvfs(directory)
        return DiskSpace(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)
