"""The parts of files in memory: the bytes of a file, the names in a directory, and the used
space."""

from __future__ import annotations

import os
from threading import RLock

from protocol.buffer import Buffer

NAME_BYTES_MAX = 255


def error(code: int, path: str, other: str | None = None) -> OSError:
    """Returns an OSError with the system's text for ``code``; ``other`` is the new path of a
    rename."""
    if other is None:
        return OSError(code, os.strerror(code), path)
    return OSError(code, os.strerror(code), path, None, other)


class Capacity:
    """The space that files use, without a list of the files: each file releases its space when it
    is deleted."""

    __slots__ = ("bytes_max", "lock", "taken_bytes")

    def __init__(self, bytes_max: int | None) -> None:
        self.bytes_max = bytes_max
        """The capacity in bytes; None means no limit."""
        self.taken_bytes = 0
        self.lock = RLock()
        """The lock for changes of a file, a name or the used space. Freeing the space of a file
        needs no other lock."""

    def free_bytes(self, wanted: int) -> int:
        """Returns the number of bytes, at most ``wanted``, that are free."""
        if self.bytes_max is None:
            return wanted
        return max(0, min(wanted, self.bytes_max - self.taken_bytes))


class Inode:
    """The bytes of a file. The bytes are freed when the file has no name and no file object is
    open."""

    __slots__ = ("capacity", "data", "is_locked", "modified_ms", "taken_bytes")

    def __init__(self, capacity: Capacity, now_ms: int) -> None:
        self.capacity = capacity
        self.data = bytearray()
        """The contents of the file; the lock protects changes, but slices may be read without the
        lock."""
        self.taken_bytes = 0
        """The reserved space in bytes, at least the length of the file."""
        self.modified_ms = now_ms
        self.is_locked = False

    def __del__(self) -> None:
        with self.capacity.lock:
            self.capacity.taken_bytes -= self.taken_bytes

    def write(self, position: int, data: Buffer) -> int:
        """Writes as much of ``data`` as fits; returns the number of bytes written. The caller must
        hold the lock."""
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
            content += data  # copies once; assignment to a slice would copy twice
        else:
            content[position:end] = data
        return len(data)

    def take(self, size: int) -> int:
        """Increases the reserved space up to ``size`` bytes; returns its new size. The caller must
        hold the lock."""
        more = self.capacity.free_bytes(size - self.taken_bytes)
        self.taken_bytes += more
        self.capacity.taken_bytes += more
        return self.taken_bytes

    def truncate(self, size: int) -> bool:
        """Truncates or zero-pads the file to ``size`` bytes; returns False if the space is too
        small. The caller must hold the lock."""
        data = self.data
        if size > len(data):
            if self.taken_bytes < size > self.take(size):
                return False
            data += bytes(size - len(data))
        else:
            del data[size:]
        self.capacity.taken_bytes -= self.taken_bytes - size
        self.taken_bytes = size
        return True


class Directory:
    """The names that exist in a directory."""

    __slots__ = ("modified_ms", "names")

    def __init__(self, now_ms: int) -> None:
        self.names: set[str] = set()
        self.modified_ms = now_ms
