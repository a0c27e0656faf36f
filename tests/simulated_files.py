"""A file system in memory that loses power, becomes full and fails when a test requires it.

After `kill`, the next process finds all written bytes. After `lose_power`, all fsynced bytes
remain, but bytes after the last fsync of a file disappear or become zeros at random. Renames, new
names and removals in a directory without a later fsync are undone at random, in reverse order.
"""

from __future__ import annotations

import errno
import os
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass

from broker.test_mode.files.memory_disk import Capacity
from broker.test_mode.files.memory_disk import Inode as MemoryInode
from broker.test_mode.files.memory_files import MemoryFile, MemoryFiles
from broker.time import Time
from log.files.filesystem import File
from protocol.buffer import Buffer

Undo = Callable[[], None]
UNBOUNDED = 1 << 40
"""The capacity of a disk that is never full."""


class Inode(MemoryInode):
    """The bytes of a file as processes see them, and its bytes at the last fsync."""

    __slots__ = ("synced",)

    def __init__(self, capacity: Capacity, now_ms: int = 0, data: bytes = b"") -> None:
        super().__init__(capacity, now_ms)
        self.data += data
        self.synced = data


@dataclass
class Fault:
    """Makes the next ``count`` calls of ``operation`` fail on paths that end with ``suffix``. A
    failing write stores only ``partial_bytes`` of its data."""

    operation: str
    suffix: str
    count: int = 1
    code: int = errno.EIO
    partial_bytes: int = 0


class SimulatedFile(MemoryFile):
    """Implements log.files.filesystem.File.

    After the file is renamed or removed, each use fails unless `opened` or `keep` was called
    before. A real file behaves so if the cache of open files has closed its descriptor, which it
    may do at any time.
    """

    __slots__ = ("_held",)
    _fs: SimulatedFiles
    _inode: Inode

    def __init__(self, fs: SimulatedFiles, path: str, inode: Inode, held: bool = False) -> None:
        super().__init__(fs, path, inode)
        self._held = held

    def opened(self) -> SimulatedFile:
        self._find()
        return SimulatedFile(self._fs, self.path, self._inode, held=True)

    def keep(self) -> None:
        self._find()
        self._held = True

    def _find(self) -> None:
        if not self._held and self._fs.names.get(self.path) is not self._inode:
            raise OSError(errno.ESTALE, "it was not kept open", self.path)

    def size(self) -> int:
        self._find()
        return super().size()

    def read(self, position: int, length: int) -> bytes:
        assert position >= 0, position
        assert length >= 0, length
        self._find()
        self._fs.check("read", self.path)
        if self._fs.disk is not None:
            assert self._fs.disk.wait(self._fs.DISK_WITHIN_S), "nobody lets the disk answer"
        return super().read(position, length)

    def read_cached(self, position: int, length: int) -> bytes | None:
        return None if self._fs.disk is not None else self.read(position, length)

    def send_cached(self, socket_descriptor: int, position: int, length: int) -> int:
        return 0

    def reserve(self, size: int) -> None:
        self._find()
        if self._fs.room(max(0, size - len(self._inode.data))) < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)

    def write(self, position: int, data: Buffer) -> None:
        self._find()
        fault = self._fs.fault("write", self.path)
        room = self._fs.room(max(0, position + len(data) - len(self._inode.data)))
        if fault is not None:
            super().write(position, data[: fault.partial_bytes])
            raise OSError(fault.code, os.strerror(fault.code), self.path)
        if room < 0:
            super().write(position, data[: len(data) + room])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
        super().write(position, data)
        self._fs.on_written(self.path, data)

    def truncate(self, size: int) -> None:
        self._find()
        self._fs.check("truncate", self.path)
        super().truncate(size)

    def fsync(self) -> None:
        self._find()
        self._fs.check("fsync", self.path)
        self._inode.synced = bytes(self._inode.data)


class SimulatedFiles(MemoryFiles):
    """Implements log.files.filesystem.FileSystem. ``now_ms`` is the modification time of written
    files."""

    names: dict[str, Inode]

    DISK_WITHIN_S = 20.0

    def __init__(self, now_ms: int = 0, capacity_bytes: int = UNBOUNDED) -> None:
        self.now_ms = now_ms
        super().__init__(Time())
        self.disk: threading.Event | None = None
        """If this is an event, no data is in the page cache, and each read waits until the event is
        set. If it is None, all data is cached."""
        self.capacity_bytes = capacity_bytes
        self.calls: list[tuple[str, str]] = []
        """Operation and path of each call that changed a file or failed, in order."""
        self.on_written: Callable[[str, Buffer], None] = lambda path, data: None
        """Called after each write with the path and the data."""
        self._faults: list[Fault] = []
        self._unsynced: dict[str, list[Undo]] = {}

    def wall_ms(self) -> int:
        return self.now_ms

    # -- commands of tests

    def fail(
        self,
        operation: str,
        suffix: str,
        *,
        count: int = 1,
        code: int = errno.EIO,
        partial_bytes: int = 0,
    ) -> None:
        """Makes the next ``count`` calls of the method named ``operation`` fail on paths that end
        with ``suffix``."""
        self._faults.append(Fault(operation, suffix, count, code, partial_bytes))

    def heal(self) -> None:
        self._faults.clear()

    def kill(self) -> None:
        """Simulates the end of the process. Its locks are released, and all written bytes
        remain."""
        for inode in self.names.values():
            inode.is_locked = False

    def as_killed(self) -> SimulatedFiles:
        """Returns a copy with the files that a new process would find if this process were killed
        now."""
        found = SimulatedFiles(self.now_ms, self.capacity_bytes)
        for path in sorted(self.directories):
            found.make_directory(path)
        copies: dict[int, Inode] = {}
        for path, inode in list(self.names.items()):
            if id(inode) not in copies:
                copies[id(inode)] = Inode(found.capacity, inode.modified_ms, bytes(inode.data))
            found.enter(path, copies[id(inode)])
        return found

    def lose_power(self, chance: random.Random) -> None:
        """Keeps all fsynced bytes and a random part of the other changes."""
        self.kill()
        for undos in self._unsynced.values():
            for undo in reversed(undos[chance.randint(0, len(undos)) :]):
                undo()
        self._unsynced.clear()
        for inode in self.names.values():
            inode.data[:] = _after_power_loss(inode, chance)
            inode.synced = bytes(inode.data)

    def written(self, path: str) -> bytes:
        return bytes(self.names[path].data)

    def put(self, path: str, data: bytes) -> None:
        """Creates a file with fsynced content."""
        self.make_directory(os.path.dirname(path))
        self.enter(path, Inode(self.capacity, 0, data))

    def lose(self, path: str) -> None:
        """Deletes a file. The deletion is not recorded as a call of the broker."""
        self.leave(path)

    # -- calls of the files

    def fault(self, operation: str, path: str) -> Fault | None:
        if operation != "read":
            self.calls.append((operation, path))
        for fault in self._faults:
            if fault.count and fault.operation == operation and path.endswith(fault.suffix):
                fault.count -= 1
                return fault
        return None

    def check(self, operation: str, path: str) -> None:
        fault = self.fault(operation, path)
        if fault is not None:
            raise OSError(fault.code, os.strerror(fault.code), path)

    def room(self, more: int) -> int:
        """Returns the number of bytes that would be free after the files have grown by ``more``
        bytes. It is negative if the disk is too small for this."""
        if more > 0 and self.capacity_bytes == UNBOUNDED:
            return UNBOUNDED - more  # a write only checks the limit
        inodes = {id(inode): inode for inode in list(self.names.values())}
        used = sum(len(inode.data) for inode in inodes.values())
        return self.capacity_bytes - used - more

    # -- log.files.filesystem.FileSystem

    def open(self, path: str, create: bool = False) -> SimulatedFile:
        is_new = create and not self.exists(path)
        if is_new:
            self.check("open", path)
        file = super().open(path, create)
        if is_new:
            self._later(path, self._restorer(path, None))
        assert isinstance(file, SimulatedFile)
        return file

    def new_inode(self) -> Inode:
        return Inode(self.capacity, self.now_ms)

    def new_file(self, path: str, inode: MemoryInode) -> SimulatedFile:
        assert isinstance(inode, Inode)
        return SimulatedFile(self, path, inode)

    def rename(self, old: str, new: str, file: File | None = None) -> None:
        self.check("rename", new)
        was_old, was_new = self.names.get(old), self.names.get(new)
        super().rename(old, new, file)
        if was_old is None:
            return  # a directory
        restore_new, restore_old = self._restorer(new, was_new), self._restorer(old, was_old)

        def undo() -> None:
            restore_new()
            restore_old()

        self._later(new, undo)

    def link(self, old: str, new: str) -> None:
        self.check("link", new)
        super().link(old, new)
        self._later(new, self._restorer(new, None))

    def remove(self, path: str) -> None:
        inode = self.names.get(path)
        if inode is not None:
            self.check("remove", path)
            self._later(path, self._restorer(path, inode))
        super().remove(path)

    def fsync_directory(self, path: str) -> None:
        self.check("fsync_directory", path)
        super().fsync_directory(path)
        self._unsynced.pop(path, None)

    def _later(self, path: str, undo: Undo) -> None:
        self._unsynced.setdefault(os.path.dirname(path), []).append(undo)

    def _restorer(self, path: str, inode: Inode | None) -> Undo:
        def restore() -> None:
            if os.path.dirname(path) not in self.directories:
                return  # removed with its contents, or renamed
            if inode is not None:
                self.enter(path, inode)
            elif path in self.names:
                self.leave(path)

        return restore


def _after_power_loss(inode: Inode, chance: random.Random) -> bytes:
    """Returns the bytes of a file after a power loss: all fsynced bytes, then some of the later
    bytes, partly as zeros."""
    synced, data = inode.synced, bytes(inode.data)
    if not data.startswith(synced):  # truncated or overwritten since: old or new bytes
        return synced if chance.random() < 0.5 else data
    end = chance.randint(len(synced), len(data))
    kept = bytearray(data[:end])
    if end > len(synced) and chance.random() < 0.5:
        hole = chance.randint(len(synced), end)
        hole_end = chance.randint(hole, end)
        kept[hole:hole_end] = bytes(hole_end - hole)
    return bytes(kept)
