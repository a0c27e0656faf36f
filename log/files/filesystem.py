"""Files: the two protocols through which all of `log/` does its I/O, and the real file system.

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
"""How many files have a descriptor at a time, unless the process may have fewer."""


class File(Protocol):
    """An open file, read and written at explicit positions, from any thread.

    Its descriptor may be closed, and opened again by its name. Code that must read on whatever
    happens to the name holds `opened`; code that removes the name calls `keep` first.
    """

    @property
    def path(self) -> str:
        """Where the file was opened, or where a rename that was given this file has put it."""

    def opened(self) -> File:
        """The same file, whose descriptor stays open as long as this is referenced."""

    def keep(self) -> None:
        """Open it, and let the descriptor close with the last reference to the file, not before.

        To be called before its name is removed or taken by another file.
        """

    def size(self) -> int:
        """Bytes in the file."""

    def read(self, position: int, length: int) -> bytes:
        """At most ``length`` bytes from ``position``, fewer only at the end of the file."""

    def read_cached(self, position: int, length: int) -> bytes | bytearray | None:
        """As much of `read` as is in memory: None when the disk would be waited for.

        Fewer bytes than asked for may be there; none at the end of the file.
        """

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


class DiskSpace(NamedTuple):
    """How much a disk holds, and how much of that this process may still take."""

    total_bytes: int
    usable_bytes: int


class Lock(Protocol):
    """A directory that is ours until ``release``."""

    def release(self) -> None:
        """Give the directory up."""


class FileSystem(Protocol):
    """What `log/` asks of a file system. Everything raises OSError as the system does."""

    def open(self, path: str, create: bool = False) -> File:
        """Open for reading and writing; with ``create`` make the file if it is missing."""

    def create_private(self, path: str) -> File:
        """Make a file that nobody but its owner may read; FileExistsError where there is one."""

    def exists(self, path: str) -> bool:
        """Whether a file or directory is there."""

    def list(self, directory: str) -> list[str]:
        """Names in a directory, sorted."""

    def modified_ms(self, path: str) -> int:
        """Last modification in wall milliseconds."""

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Let a file count as last modified then; lasting once it is fsynced."""

    def rename(self, old: str, new: str, file: File | None = None) -> None:
        """Rename, replacing what is there; lasting once the directory is fsynced.

        ``file`` is the one that goes by the old name, if somebody will use it under the new one.
        """

    def link(self, old: str, new: str) -> None:
        """Give a file a second name, which must be free; OSError where the disk has no such."""

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

    def space(self, directory: str) -> DiskSpace | None:
        """Of the disk that a directory is on; None where nobody says."""


def read_whole(fs: FileSystem, path: str) -> bytes:
    """All bytes of a small file."""
    file = fs.open(path)
    return file.read(0, file.size())


def write_whole(fs: FileSystem, path: str, data: Buffer, *, durable: bool = True) -> None:
    """Replace a small file so that a reader, or a crash, finds the old bytes or the new ones.

    With ``durable`` they are on the disk when this returns; without, a loss of power may leave
    anything, and the reader must see it.
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
            fs.remove(temporary)  # a full disk has no room for half a file
        raise
    if durable:
        fs.fsync_directory(os.path.dirname(path))


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
    """How many of the descriptors that the process may have are for files; others are sockets."""
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
        with self.files.lock:  # nobody opens it by the old name meanwhile
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
