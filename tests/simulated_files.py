"""A file system in memory that loses power, fills up and fails when told to.

`SimulatedFiles` is a `log.filesystem.FileSystem`. What a process wrote is there for the next one
(`kill`); what it fsynced survives `lose_power`, and of the rest, by chance: bytes behind the last
fsync of a file vanish or are zeros, and renames, new names and removals whose directory was not
fsynced are undone, the last ones first.
"""

from __future__ import annotations

import errno
import os
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from log.errors import DirectoryLocked
from log.filesystem import DiskSpace, File
from protocol.buffer import Buffer

Undo = Callable[[], None]
UNBOUNDED = 1 << 40
"""The capacity of a disk that is never full."""


@dataclass
class Inode:
    """A file's bytes as processes see them, and as the last fsync left them."""

    data: bytearray = field(default_factory=bytearray)
    synced: bytes = b""


@dataclass
class Fault:
    """The next ``count`` calls of ``operation`` on paths that end with ``suffix`` fail.

    A failing write leaves ``partial_bytes`` of its data in the file.
    """

    operation: str
    suffix: str
    count: int = 1
    code: int = errno.EIO
    partial_bytes: int = 0


class SimulatedFile:
    """See log.filesystem.File.

    Its descriptor is always closed behind the scenes: used without its name, and neither `opened`
    nor kept in time, it fails.
    """

    def __init__(self, fs: SimulatedFiles, path: str, inode: Inode, held: bool = False) -> None:
        self.path = path
        self._fs = fs
        self._inode = inode
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
        return len(self._inode.data)

    def read(self, position: int, length: int) -> bytes:
        assert position >= 0, position
        assert length >= 0, length
        self._find()
        self._fs.check("read", self.path)
        if self._fs.disk is not None:
            assert self._fs.disk.wait(self._fs.DISK_WITHIN_S), "nobody lets the disk answer"
        return bytes(self._inode.data[position : position + length])

    def read_cached(self, position: int, length: int) -> bytes | None:
        return None if self._fs.disk is not None else self.read(position, length)

    def reserve(self, size: int) -> None:
        self._find()
        if self._fs.room(max(0, size - len(self._inode.data))) < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)

    def write(self, position: int, data: Buffer) -> None:
        self._find()
        fault = self._fs.fault("write", self.path)
        room = self._fs.room(max(0, position + len(data) - len(self._inode.data)))
        if fault is not None:
            self._put(position, bytes(data)[: fault.partial_bytes])
            raise OSError(fault.code, os.strerror(fault.code), self.path)
        if room < 0:
            self._put(position, bytes(data)[: len(data) + room])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
        self._put(position, bytes(data))
        self._fs.on_written(self.path, data)

    def _put(self, position: int, data: bytes) -> None:
        inode = self._inode
        if data and position > len(inode.data):
            inode.data += bytes(position - len(inode.data))
        inode.data[position : position + len(data)] = data

    def truncate(self, size: int) -> None:
        self._find()
        self._fs.check("truncate", self.path)
        data = self._inode.data
        if size < len(data):
            del data[size:]
        else:
            data += bytes(size - len(data))

    def fsync(self) -> None:
        self._find()
        self._fs.check("fsync", self.path)
        self._inode.synced = bytes(self._inode.data)


class SimulatedLock:
    """See log.filesystem.Lock."""

    def __init__(self, locked: set[str], directory: str) -> None:
        self._locked = locked
        self._directory = directory

    def release(self) -> None:
        self._locked.discard(self._directory)


class SimulatedFiles:
    """See log.filesystem.FileSystem. ``now_ms`` is the time that files are modified at."""

    DISK_WITHIN_S = 20.0

    def __init__(self, now_ms: int = 0, capacity_bytes: int = UNBOUNDED) -> None:
        self.disk: threading.Event | None = None
        """While there is one nothing is in memory: reads wait until it is set."""
        self.now_ms = now_ms
        self.capacity_bytes = capacity_bytes
        self.calls: list[tuple[str, str]] = []
        """(operation, path) of all that changed something or failed, in order."""
        self.names: dict[str, Inode] = {}
        self.directories: set[str] = {"/"}
        self.on_written: Callable[[str, Buffer], None] = lambda path, data: None
        """Called with what was written to a file, behind the write."""
        self._faults: list[Fault] = []
        self._modified: dict[str, int] = {}
        self._unsynced: dict[str, list[Undo]] = {}
        self._locked: set[str] = set()

    # -- what tests do to it

    def fail(
        self,
        operation: str,
        suffix: str,
        *,
        count: int = 1,
        code: int = errno.EIO,
        partial_bytes: int = 0,
    ) -> None:
        """Let the next ``count`` calls fail; operations are the methods' names."""
        self._faults.append(Fault(operation, suffix, count, code, partial_bytes))

    def heal(self) -> None:
        """Let nothing fail any more."""
        self._faults.clear()

    def kill(self) -> None:
        """The process is gone, and its locks with it; what it wrote stays."""
        self._locked.clear()

    def as_killed(self) -> SimulatedFiles:
        """What the next process would find if this one were killed now; this one goes on."""
        found = SimulatedFiles(self.now_ms, self.capacity_bytes)
        copies: dict[int, Inode] = {}
        for path, inode in list(self.names.items()):
            copy = copies.setdefault(id(inode), Inode(bytearray(inode.data), bytes(inode.data)))
            found.names[path] = copy
        found.directories = set(self.directories)
        return found

    def lose_power(self, chance: random.Random) -> None:
        """Keep what was fsynced, and of the rest what ``chance`` keeps."""
        self.kill()
        for undos in self._unsynced.values():
            for undo in reversed(undos[chance.randint(0, len(undos)) :]):
                undo()
        self._unsynced.clear()
        for inode in self.names.values():
            inode.data[:] = _after_power_loss(inode, chance)
            inode.synced = bytes(inode.data)

    def written(self, path: str) -> bytes:
        """The bytes of a file."""
        return bytes(self.names[path].data)

    def put(self, path: str, data: bytes) -> None:
        """Make a file that is on the disk already."""
        self.make_directory(os.path.dirname(path))
        self.names[path] = Inode(bytearray(data), data)

    # -- for the files

    def fault(self, operation: str, path: str) -> Fault | None:
        if operation != "read":
            self.calls.append((operation, path))
            self._modified[path] = self.now_ms
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
        """Bytes left free if a file grew by ``more``; negative when it cannot."""
        if more > 0 and self.capacity_bytes == UNBOUNDED:
            return UNBOUNDED - more  # without counting: a write asks only whether it fits
        inodes = {id(inode): inode for inode in list(self.names.values())}
        used = sum(len(inode.data) for inode in inodes.values())
        return self.capacity_bytes - used - more

    # -- log.filesystem.FileSystem

    def open(self, path: str, create: bool = False) -> SimulatedFile:
        if path not in self.names:
            if not create:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            assert os.path.dirname(path) in self.directories, path
            self.check("open", path)
            self.names[path] = Inode()
            self._later(path, self._restorer(path, None))
        return SimulatedFile(self, path, self.names[path])

    def exists(self, path: str) -> bool:
        return path in self.names or path in self.directories

    def list(self, directory: str) -> list[str]:
        if directory not in self.directories:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), directory)
        inside = directory.rstrip("/") + "/"
        length = len(inside)
        return sorted(
            path[length:]
            for paths in (self.names, self.directories)
            for path in paths
            if path.startswith(inside) and len(path) > length and path.find("/", length) < 0
        )

    def modified_ms(self, path: str) -> int:
        return self._modified.get(path, 0)

    def rename(self, old: str, new: str, file: File | None = None) -> None:
        self.check("rename", new)
        if isinstance(file, SimulatedFile):
            file.path = new
        if old in self.directories:
            self._rename_directory(old, new)
            return
        was_old, was_new = self.names[old], self.names.get(new)
        self.names[new] = self.names.pop(old)
        restore_new, restore_old = self._restorer(new, was_new), self._restorer(old, was_old)

        def undo() -> None:
            restore_new()
            restore_old()

        self._later(new, undo)

    def link(self, old: str, new: str) -> None:
        self.check("link", new)
        if new in self.names:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new)
        if old not in self.names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), old)
        self.names[new] = self.names[old]
        self._later(new, self._restorer(new, None))

    def _rename_directory(self, old: str, new: str) -> None:
        for path in [path for path in self.names if path.startswith(old + "/")]:
            self.names[new + path[len(old) :]] = self.names.pop(path)
        self.directories.discard(old)
        self.directories.add(new)

    def remove(self, path: str) -> None:
        if path in self.names:
            self.check("remove", path)
            self._later(path, self._restorer(path, self.names.pop(path)))

    def make_directory(self, path: str) -> None:
        while path not in self.directories:
            self.directories.add(path)
            path = os.path.dirname(path)

    def remove_directory(self, path: str) -> None:
        for name in [name for name in self.names if name.startswith(path + "/")]:
            del self.names[name]
        self.directories -= {
            name for name in self.directories if name == path or name.startswith(path + "/")
        }

    def fsync_directory(self, path: str) -> None:
        self.check("fsync_directory", path)
        self._unsynced.pop(path, None)

    def lock(self, directory: str) -> SimulatedLock:
        if directory in self._locked:
            raise DirectoryLocked(f"{directory} is in use")
        self._locked.add(directory)
        return SimulatedLock(self._locked, directory)

    def space(self, directory: str) -> DiskSpace | None:
        return None

    def _later(self, path: str, undo: Undo) -> None:
        self._unsynced.setdefault(os.path.dirname(path), []).append(undo)

    def _restorer(self, path: str, inode: Inode | None) -> Undo:
        def restore() -> None:
            if inode is None:
                self.names.pop(path, None)
            else:
                self.names[path] = inode

        return restore


def _after_power_loss(inode: Inode, chance: random.Random) -> bytes:
    """What is left of a file: its synced bytes, then some of the later ones, partly zeros."""
    synced, data = inode.synced, bytes(inode.data)
    if not data.startswith(synced):  # cut or written over since: the old bytes or the new ones
        return synced if chance.random() < 0.5 else data
    end = chance.randint(len(synced), len(data))
    kept = bytearray(data[:end])
    if end > len(synced) and chance.random() < 0.5:
        hole = chance.randint(len(synced), end)
        hole_end = chance.randint(hole, end)
        kept[hole:hole_end] = bytes(hole_end - hole)
    return bytes(kept)
