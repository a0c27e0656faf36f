"""A file that is read only from the page cache. It is for the event loop, which must not wait for
the disk."""

from __future__ import annotations

from log.errors import NotInMemory
from log.files.filesystem import File


class CachedFile:
    """The read methods of a `File`, for the event loop. A read that would wait for the disk raises
    NotInMemory."""

    __slots__ = ("_file", "path")

    def __init__(self, file: File) -> None:
        self._file = file
        self.path = file.path

    def read(self, position: int, length: int) -> bytes | bytearray:
        """Implements File.read. The caller may request only bytes within the file."""
        data = self._file.read_cached(position, length)
        if data is None or len(data) < length:
            raise NotInMemory
        return data
