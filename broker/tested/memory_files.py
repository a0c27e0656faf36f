"""Files in memory, for a broker whose data nobody needs when the test is over.

`MemoryFiles` is a `log.filesystem.FileSystem`. Nothing of it is on a disk, and all of it is freed
with the last reference to it. It loses nothing and fails in nothing but a full capacity; what tests
do to a disk is in `faulty_files.py`, which goes over this one and over real files alike.
"""

from __future__ import annotations

import errno
from contextlib import suppress

from broker.tested.memory_disk import (
    Directory,
    Inode,
    MemoryDisk,
    check_name,
    directory_at,
    error,
    find,
    parts_of,
    place_of,
)
from broker.time import Time
from log.errors import DirectoryLocked
from log.filesystem import DiskSpace, File
from protocol.buffer import Buffer

LOCK = ".lock"


class MemoryFile:
    """A file that is open. It needs its name no more: see File."""

    __slots__ = ("_inode", "_time", "path")

    def __init__(self, path: str, inode: Inode, time: Time) -> None:
        self.path = path
        self._inode = inode
        self._time = time

    def opened(self) -> MemoryFile:
        """See File."""
        return self

    def keep(self) -> None:
        """See File."""

    def size(self) -> int:
        """See File."""
        return len(self._inode.data)

    def read(self, position: int, length: int) -> bytes:
        """See File."""
        return bytes(self.read_cached(position, length))

    def read_cached(self, position: int, length: int) -> bytearray:
        """See File; a copy, which no cut of the file can change."""
        if position < 0 or length < 0:
            raise error(errno.EINVAL, self.path)
        return self._inode.data[position : position + length]

    def write(self, position: int, data: Buffer) -> None:
        """See File."""
        if position < 0:
            raise error(errno.EINVAL, self.path)
        inode = self._inode
        with inode.disk.lock:
            written = inode.write(position, data)
            inode.modified_ms = _now_ms(self._time)
        if written < len(data):
            raise error(errno.ENOSPC, self.path)

    def truncate(self, size: int) -> None:
        """See File."""
        if size < 0:
            raise error(errno.EINVAL, self.path)
        inode = self._inode
        with inode.disk.lock:
            if not inode.truncate(size):
                raise error(errno.ENOSPC, self.path)
            inode.modified_ms = _now_ms(self._time)

    def reserve(self, size: int) -> None:
        """See File."""
        if size <= 0:
            raise error(errno.EINVAL, self.path)
        inode = self._inode
        with inode.disk.lock:
            if inode.disk.free_bytes(size - inode.taken_bytes) < size - inode.taken_bytes:
                raise error(errno.ENOSPC, self.path)
            if size > inode.taken_bytes:
                inode.take(size)

    def fsync(self) -> None:
        """See File; there is no disk to wait for."""


class MemoryLock:
    """See log.filesystem.Lock."""

    __slots__ = ("_inode",)

    def __init__(self, inode: Inode) -> None:
        self._inode: Inode | None = inode

    def release(self) -> None:
        """See Lock; a second call does nothing."""
        inode, self._inode = self._inode, None
        if inode is not None:
            inode.is_locked = False


class MemoryFiles:
    """See log.filesystem.FileSystem. ``time`` says when a file was modified."""

    def __init__(self, time: Time, capacity_bytes: int | None = None) -> None:
        self._time = time
        self.disk = MemoryDisk(capacity_bytes)
        self._lock = self.disk.lock
        self._root = Directory(_now_ms(time))

    def open(self, path: str, create: bool = False) -> MemoryFile:
        """See FileSystem."""
        with self._lock:
            directory, name = place_of(self._root, path)
            found = directory.entries.get(name)
            if found is None:
                if not create:
                    raise error(errno.ENOENT, path)
                found = Inode(self.disk, _now_ms(self._time))
                self._enter(directory, name, found)
            elif isinstance(found, Directory):
                raise error(errno.EISDIR, path)
            return MemoryFile(path, found, self._time)

    def exists(self, path: str) -> bool:
        """See FileSystem."""
        with self._lock, suppress(OSError):
            find(self._root, path)
            return True
        return False

    def list(self, directory: str) -> list[str]:
        """See FileSystem."""
        with self._lock:
            return sorted(directory_at(self._root, directory).entries)

    def modified_ms(self, path: str) -> int:
        """See FileSystem."""
        with self._lock:
            return find(self._root, path).modified_ms

    def rename(self, old: str, new: str, file: File | None = None) -> None:
        """See FileSystem."""
        with self._lock:
            try:
                from_directory, old_name = place_of(self._root, old)
                to_directory, new_name = place_of(self._root, new)
                moved = find(self._root, old)
            except OSError as why:
                raise error(why.errno or errno.EIO, old, new) from None
            replaced = to_directory.entries.get(new_name)
            if replaced is not moved:
                self._check_rename(moved, replaced, old, new)
                del from_directory.entries[old_name]
                from_directory.modified_ms = _now_ms(self._time)
                self._enter(to_directory, new_name, moved)
            if isinstance(file, MemoryFile):
                file.path = new

    def _check_rename(
        self, moved: Inode | Directory, replaced: Inode | Directory | None, old: str, new: str
    ) -> None:
        old_parts, new_parts = parts_of(old), parts_of(new)
        if old_parts[: len(new_parts)] == new_parts:  # it is in what it would replace
            raise error(errno.ENOTEMPTY, old, new)
        if isinstance(moved, Directory):
            if new_parts[: len(old_parts)] == old_parts:
                raise error(errno.EINVAL, old, new)
            if isinstance(replaced, Inode):
                raise error(errno.ENOTDIR, old, new)
            if replaced is not None and replaced.entries:
                raise error(errno.ENOTEMPTY, old, new)
        elif isinstance(replaced, Directory):
            raise error(errno.EISDIR, old, new)

    def link(self, old: str, new: str) -> None:
        """See FileSystem."""
        with self._lock:
            try:
                linked = find(self._root, old)
                directory, name = place_of(self._root, new)
            except OSError as why:
                raise error(why.errno or errno.EIO, old, new) from None
            if name in directory.entries:
                raise error(errno.EEXIST, old, new)
            if isinstance(linked, Directory):
                raise error(errno.EPERM, old, new)
            self._enter(directory, name, linked)

    def remove(self, path: str) -> None:
        """See FileSystem."""
        with self._lock:
            try:
                directory, name = place_of(self._root, path)
            except FileNotFoundError:
                return
            found = directory.entries.get(name)
            if isinstance(found, Directory):
                raise error(errno.EISDIR, path)
            if found is not None:
                del directory.entries[name]
                directory.modified_ms = _now_ms(self._time)

    def make_directory(self, path: str) -> None:
        """See FileSystem."""
        with self._lock:
            directory = self._root
            parts = parts_of(path)
            for depth, name in enumerate(parts):
                check_name(name, path)
                found = directory.entries.get(name)
                if found is None:
                    found = Directory(_now_ms(self._time))
                    self._enter(directory, name, found)
                elif isinstance(found, Inode):
                    code = errno.EEXIST if depth == len(parts) - 1 else errno.ENOTDIR
                    raise error(code, "/" + "/".join(parts[: depth + 2]))
                directory = found

    def remove_directory(self, path: str) -> None:
        """See FileSystem."""
        with self._lock:
            directory_at(self._root, path)
            parent, name = place_of(self._root, path)
            del parent.entries[name]
            parent.modified_ms = _now_ms(self._time)

    def fsync_directory(self, path: str) -> None:
        """See FileSystem; there is no disk to wait for."""
        with self._lock:
            directory_at(self._root, path)

    def lock(self, directory: str) -> MemoryLock:
        """See FileSystem."""
        with self._lock:
            self.open(f"{directory}/{LOCK}", create=True)
            found = find(self._root, f"{directory}/{LOCK}")
            assert isinstance(found, Inode)
            if found.is_locked:
                raise DirectoryLocked(f"The data directory {directory} is in use.")
            found.is_locked = True
            return MemoryLock(found)

    def space(self, directory: str) -> DiskSpace | None:
        """See FileSystem."""
        with self._lock:
            capacity = self.disk.capacity_bytes
            if capacity is None:
                return None
            directory_at(self._root, directory)
            return DiskSpace(capacity, self.disk.free_bytes(capacity))

    def _enter(self, directory: Directory, name: str, entry: Inode | Directory) -> None:
        directory.entries[name] = entry
        directory.modified_ms = _now_ms(self._time)


def _now_ms(time: Time) -> int:
    return int(time.wall_s() * 1000)
