"""Files in memory, for a broker whose data is not needed after the test. `MemoryFiles` implements
`log.files.filesystem.FileSystem` without a disk.

Calls fail with the errors of Linux, and run out of space only above the capacity. `faulty_files.py`
adds simulated faults. Paths are absolute, without "." and "..", and do not end with a slash. The
memory is freed when the last reference is removed.
"""

from __future__ import annotations

import errno
import os

from broker.test_mode.files.memory_disk import NAME_BYTES_MAX, Capacity, Directory, Inode, error
from broker.time import Time
from log.errors import DirectoryLocked
from log.files.filesystem import DiskSpace, File, Lock
from protocol.buffer import Buffer

LOCK = ".lock"


class MemoryFile:
    """An open file. It can be used even after its name is removed. Implements `File`."""

    __slots__ = ("_fs", "_inode", "path")

    def __init__(self, fs: MemoryFiles, path: str, inode: Inode) -> None:
        self._fs = fs
        self.path = path
        self._inode = inode

    def opened(self) -> MemoryFile:
        return self

    def keep(self) -> None: ...

    def size(self) -> int:
        return len(self._inode.data)

    def read(self, position: int, length: int) -> bytes:
        if position < 0 or length < 0:
            raise error(errno.EINVAL, self.path)
        return bytes(self._inode.data[position : position + length])

    def read_cached(self, position: int, length: int) -> bytes | bytearray | None:
        """Implements `File.read_cached`. Returns a copy, which a later truncation does not
        change."""
        if position < 0 or length < 0:
            raise error(errno.EINVAL, self.path)
        return self._inode.data[position : position + length]

    def send_cached(self, socket_descriptor: int, position: int, length: int) -> int:  # noqa: ARG002
        """Implements `File.send_cached`. Data in this process can't be sent without a copy."""
        return 0

    def write(self, position: int, data: Buffer) -> None:
        if position < 0:
            raise error(errno.EINVAL, self.path)
        inode = self._inode
        with inode.capacity.lock:
            written = inode.write(position, data)
            inode.modified_ms = self._fs.wall_ms()
        if written < len(data):
            raise error(errno.ENOSPC, self.path)

    def truncate(self, size: int) -> None:
        if size < 0:
            raise error(errno.EINVAL, self.path)
        inode = self._inode
        with inode.capacity.lock:
            if not inode.truncate(size):
                raise error(errno.ENOSPC, self.path)
            inode.modified_ms = self._fs.wall_ms()

    def reserve(self, size: int) -> None:
        if size <= 0:
            raise error(errno.EINVAL, self.path)
        inode = self._inode
        with inode.capacity.lock:
            more = size - inode.taken_bytes
            if more > inode.capacity.free_bytes(more):
                raise error(errno.ENOSPC, self.path)
            if more > 0:
                inode.take(size)

    def fsync(self) -> None: ...


class MemoryLock:
    """The lock of a directory in memory. Implements `log.files.filesystem.Lock`."""

    __slots__ = ("_inode",)

    def __init__(self, inode: Inode) -> None:
        self._inode: Inode | None = inode

    def release(self) -> None:
        inode, self._inode = self._inode, None
        if inode is not None:
            inode.is_locked = False


class MemoryFiles:
    """Implements `log.files.filesystem.FileSystem`. Modification times come from the clock
    ``time``."""

    def __init__(self, time: Time, capacity_bytes: int | None = None) -> None:
        self._time = time
        self.capacity = Capacity(capacity_bytes)
        self.names: dict[str, Inode] = {}
        """The files by path. Must be changed together with `directories`, under the lock."""
        self.directories: dict[str, Directory] = {"/": Directory(self.wall_ms())}
        self._lock = self.capacity.lock

    def wall_ms(self) -> int:
        return int(self._time.wall_s() * 1000)

    # -- log.files.filesystem.FileSystem

    def open(self, path: str, create: bool = False) -> MemoryFile:
        with self._lock:
            inode = self.names.get(path)
            if inode is None:
                if path in self.directories:
                    raise error(errno.EISDIR, path)
                self._check_place(path)
                if not create:
                    raise error(errno.ENOENT, path)
                inode = self.new_inode()
                self.enter(path, inode)
            return self.new_file(path, inode)

    def create_private(self, path: str) -> MemoryFile:
        """Implements `FileSystem.create_private`. All files in memory are private, since no other
        process can read them."""
        with self._lock:
            if self.exists(path):
                raise error(errno.EEXIST, path)
            return self.open(path, create=True)

    def exists(self, path: str) -> bool:
        return path in self.names or path in self.directories

    def list(self, directory: str) -> list[str]:
        with self._lock:
            return sorted(self._directory(directory).names)

    def modified_ms(self, path: str) -> int:
        with self._lock:
            found = self.names.get(path) or self._directory(path)
            return found.modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        with self._lock:
            self.names[path].modified_ms = modified_ms

    def rename(self, old: str, new: str, file: File | None = None) -> None:
        with self._lock:
            self._check_rename(old, new)
            if old in self.directories:
                if old != new:
                    self._move(old, new)
                    self._leave(old)
                    self._note(new)
            elif self.names[old] is not self.names.get(new):
                inode = self.names[old]
                self.leave(old)
                self.enter(new, inode)
            if isinstance(file, MemoryFile):
                file.path = new

    def link(self, old: str, new: str) -> None:
        with self._lock:
            self._check_both(old, new)
            if self.exists(new):
                raise error(errno.EEXIST, old, new)
            if old in self.directories:
                raise error(errno.EPERM, old, new)
            self.enter(new, self.names[old])

    def remove(self, path: str) -> None:
        with self._lock:
            if path in self.names:
                self.leave(path)
            elif path in self.directories:
                raise error(errno.EISDIR, path)
            elif self._is_below_a_file(path):
                raise error(errno.ENOTDIR, path)

    def make_directory(self, path: str) -> None:
        with self._lock:
            self._make_directory(path)

    def remove_directory(self, path: str) -> None:
        with self._lock:
            self._directory(path)
            if path == "/":
                raise error(errno.EBUSY, path)
            self._empty(path)
            self._leave(path)

    def fsync_directory(self, path: str) -> None:
        """Implements `FileSystem.fsync_directory`. Only checks that the directory exists."""
        with self._lock:
            self._directory(path)

    def lock(self, directory: str) -> Lock:
        with self._lock:
            path = os.path.join(directory, LOCK)
            self.open(path, create=True)
            inode = self.names[path]
            if inode.is_locked:
                raise DirectoryLocked(f"The data directory {directory} is in use.")
            inode.is_locked = True
            return MemoryLock(inode)

    def space(self, directory: str) -> DiskSpace | None:
        with self._lock:
            self._directory(directory)
            most = self.capacity.bytes_max
            return None if most is None else DiskSpace(most, self.capacity.free_bytes(most))

    # -- names; the caller holds the lock

    def new_inode(self) -> Inode:
        return Inode(self.capacity, self.wall_ms())

    def new_file(self, path: str, inode: Inode) -> MemoryFile:
        return MemoryFile(self, path, inode)

    def enter(self, path: str, inode: Inode) -> None:
        """Adds a file under the name ``path``. Replaces an existing file with this name."""
        self.names[path] = inode
        self._note(path)

    def leave(self, path: str) -> None:
        del self.names[path]
        self._leave(path)

    def _move(self, old: str, new: str) -> None:
        directory = self.directories[new] = self.directories.pop(old)
        for name in sorted(directory.names):  # a set has no order; simulations need one
            inside, moved = f"{old}/{name}", f"{new}/{name}"
            if inside in self.directories:
                self._move(inside, moved)
            else:
                self.names[moved] = self.names.pop(inside)

    def _make_directory(self, path: str) -> None:
        if path in self.directories:
            return
        if path in self.names:
            raise error(errno.EEXIST, path)
        above = os.path.dirname(path)
        if above in self.names:
            raise error(errno.ENOTDIR, path)
        self._make_directory(above)
        self._check_place(path)
        self.directories[path] = Directory(self.wall_ms())
        self._note(path)

    def _empty(self, path: str) -> None:
        for name in self.directories[path].names:
            inside = f"{path}/{name}"
            if inside in self.directories:
                self._empty(inside)
                del self.directories[inside]
            else:
                del self.names[inside]

    def _note(self, path: str) -> None:
        above, _, name = path.rpartition("/")
        directory = self.directories[above or "/"]
        directory.names.add(name)
        directory.modified_ms = self.wall_ms()

    def _leave(self, path: str) -> None:
        self.directories.pop(path, None)
        above, _, name = path.rpartition("/")
        directory = self.directories[above or "/"]
        directory.names.discard(name)
        directory.modified_ms = self.wall_ms()

    # -- checks; the caller holds the lock

    def _directory(self, path: str) -> Directory:
        directory = self.directories.get(path)
        if directory is None:
            below_a_file = path in self.names or self._is_below_a_file(path)
            raise error(errno.ENOTDIR if below_a_file else errno.ENOENT, path)
        return directory

    def _is_below_a_file(self, path: str) -> bool:
        while "/" in path:
            path = path.rpartition("/")[0]
            if path in self.names:
                return True
        return False

    def _place_error(self, path: str) -> int:
        """Returns the errno with which creating ``path`` would fail; 0 if it would succeed."""
        above, _, name = path.rpartition("/")
        if (above or "/") not in self.directories:
            return errno.ENOTDIR if self._is_below_a_file(path) else errno.ENOENT
        return errno.ENAMETOOLONG if len(os.fsencode(name)) > NAME_BYTES_MAX else 0

    def _check_place(self, path: str) -> None:
        code = self._place_error(path)
        if code:
            raise error(code, path)

    def _check_both(self, old: str, new: str) -> None:
        code = self._place_error(old) or self._place_error(new)
        if not code and not self.exists(old):
            code = errno.ENOENT
        if "/" in (old, new):
            code = errno.EBUSY
        if code:
            raise error(code, old, new)

    def _check_rename(self, old: str, new: str) -> None:
        self._check_both(old, new)
        if old.startswith(new + "/"):  # the target contains the source
            raise error(errno.ENOTEMPTY, old, new)
        if old in self.directories:
            if new.startswith(old + "/"):
                raise error(errno.EINVAL, old, new)
            if new in self.names:
                raise error(errno.ENOTDIR, old, new)
            if new != old and new in self.directories and self.directories[new].names:
                raise error(errno.ENOTEMPTY, old, new)
        elif new in self.directories:
            raise error(errno.EISDIR, old, new)
