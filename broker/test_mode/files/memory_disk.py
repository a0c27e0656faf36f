"""The building blocks of files in memory: the bytes of a file, the names in a directory, and the
used space."""

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
    """The capacity of the disk, and the space that all files in memory use together. The deletion
    of a file reduces the used space."""

    __slots__ = ("bytes_max", "lock", "taken_bytes")

    def __init__(self, bytes_max: int | None) -> None:
        self.bytes_max = bytes_max
        """The capacity in bytes; None for no limit."""
        self.taken_bytes = 0
        self.lock = RLock()
        """The lock that protects changes of files, of names and of the used space."""

    def free_bytes(self, wanted: int) -> int:
        """Returns how many of ``wanted`` bytes are free."""
        if self.bytes_max is None:
            return wanted
        return max(0, min(wanted, self.bytes_max - self.taken_bytes))


class Inode:
    """The bytes of a file. They are freed when the file has no name and is not open."""

    __slots__ = ("capacity", "data", "is_locked", "modified_ms", "taken_bytes")

    def __init__(self, capacity: Capacity, now_ms: int) -> None:
        self.capacity = capacity
        self.data = bytearray()
        """The contents of the file. Changes need the lock; slices may be read without the lock."""
        self.taken_bytes = 0
        """The number of bytes that are reserved for the file, at least its length."""
        self.modified_ms = now_ms
        self.is_locked = False

    def __del__(self) -> None:
        with self.capacity.lock:
            self.capacity.taken_bytes -= self.taken_bytes

    def write(self, position: int, data: Buffer) -> int:
        """Writes as much of ``data`` as fits. Returns the number of bytes written. The caller must
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
        """Reserves more space, until ``size`` bytes are reserved or no space is free. Returns the
        new reserved size. The caller must hold the lock."""
        more = self.capacity.free_bytes(size - self.taken_bytes)
        self.taken_bytes += more
        self.capacity.taken_bytes += more
        return self.taken_bytes

    def truncate(self, size: int) -> bool:
        """Truncates or zero-pads the file to ``size`` bytes. Returns False if there is not enough
        space. The caller must hold the lock."""
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
    """The names in one directory of the disk in memory."""

    __slots__ = ("modified_ms", "names")

    def __init__(self, now_ms: int) -> None:
        self.names: set[str] = set()
        self.modified_ms = now_ms
