"""A disk in memory: files, the directories that name them, and how much room is taken.

Errors are those that Linux gives for the same call.
"""

from __future__ import annotations

import errno
import os
from threading import RLock

NAME_BYTES_MAX = 255


def error(code: int, path: str, other: str | None = None) -> OSError:
    """The OSError of ``code``, as the system words it; ``other`` is where a rename leads."""
    if other is None:
        return OSError(code, os.strerror(code), path)
    return OSError(code, os.strerror(code), path, None, other)


class MemoryDisk:
    """How much room files take. It knows none of them: each gives its room back when it goes."""

    __slots__ = ("capacity_bytes", "lock", "taken_bytes")

    def __init__(self, capacity_bytes: int | None) -> None:
        self.capacity_bytes = capacity_bytes
        """None: no bound."""
        self.taken_bytes = 0
        self.lock = RLock()
        """Held by whoever changes a file, a name or what is taken; a file may go meanwhile."""

    def free_bytes(self, wanted: int) -> int:
        """How many more of ``wanted`` bytes there is room for."""
        if self.capacity_bytes is None:
            return wanted
        return max(0, min(wanted, self.capacity_bytes - self.taken_bytes))


class Inode:
    """A file's bytes, whatever its names. It goes with the last name and the last open file."""

    __slots__ = ("data", "disk", "is_locked", "modified_ms", "taken_bytes")

    def __init__(self, disk: MemoryDisk, now_ms: int) -> None:
        self.disk = disk
        self.data = bytearray()
        """Changed under the disk's lock; a slice may be read without."""
        self.taken_bytes = 0
        """Its length, or more if it was reserved."""
        self.modified_ms = now_ms
        self.is_locked = False

    def __del__(self) -> None:
        with self.disk.lock:
            self.disk.taken_bytes -= self.taken_bytes

    def write(self, position: int, data: bytes | bytearray | memoryview) -> int:
        """Put ``data`` there, as much as there is room for; how much that was. Under the lock."""
        if not data:
            return 0
        end = position + len(data)
        if end > self.taken_bytes:
            end = self.take(end)
            if end < position + len(data):
                data = data[: max(0, end - position)]
                if not data:
                    return 0
        content = self.data
        if position > len(content):
            content += bytes(position - len(content))
        if position == len(content):
            content += data  # does not copy it twice, as an assignment to a slice would
        else:
            content[position:end] = data
        return len(data)

    def take(self, size: int) -> int:
        """Take room for ``size`` bytes; for how many there is now. Under the lock."""
        more = self.disk.free_bytes(size - self.taken_bytes)
        self.taken_bytes += more
        self.disk.taken_bytes += more
        return self.taken_bytes

    def truncate(self, size: int) -> bool:
        """Cut or pad to ``size`` bytes; False when there is no room. Under the lock."""
        data = self.data
        if size > len(data):
            if self.take(size) < size:
                return False
            data += bytes(size - len(data))
        else:
            del data[size:]
        self.disk.taken_bytes -= self.taken_bytes - size
        self.taken_bytes = size
        return True


class Directory:
    """Names, and what they are names of."""

    __slots__ = ("entries", "modified_ms")

    def __init__(self, now_ms: int) -> None:
        self.entries: dict[str, Inode | Directory] = {}
        self.modified_ms = now_ms


def parts_of(path: str) -> list[str]:
    """The names of a path, from the root."""
    return [part for part in path.split("/") if part not in ("", ".")]


def find(root: Directory, path: str) -> Inode | Directory:
    """What is at ``path``. Raises FileNotFoundError and NotADirectoryError."""
    return _find(root, parts_of(path), path)


def _find(root: Directory, parts: list[str], path: str) -> Inode | Directory:
    found: Inode | Directory = root
    for part in parts:
        if not isinstance(found, Directory):
            raise error(errno.ENOTDIR, path)
        entry = found.entries.get(part)
        if entry is None:
            raise error(errno.ENOENT, path)
        found = entry
    return found


def directory_at(root: Directory, path: str) -> Directory:
    """The directory at ``path``. Raises FileNotFoundError and NotADirectoryError."""
    found = find(root, path)
    if not isinstance(found, Directory):
        raise error(errno.ENOTDIR, path)
    return found


def check_name(name: str, path: str) -> None:
    """Raise OSError for a name that no disk takes."""
    if len(os.fsencode(name)) > NAME_BYTES_MAX:
        raise error(errno.ENAMETOOLONG, path)


def place_of(root: Directory, path: str) -> tuple[Directory, str]:
    """The directory in which ``path`` is or would be, and its name there. Raises OSError."""
    parts = parts_of(path)
    if not parts:
        raise error(errno.EBUSY, path)  # the root
    name = parts.pop()
    check_name(name, path)
    directory = _find(root, parts, path)
    if not isinstance(directory, Directory):
        raise error(errno.ENOTDIR, path)
    return directory, name
