"""The queued writes of a connection that TLS has not encrypted yet, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from protocol.buffer import Buffer

RECORD_BYTES = 16 * 1024
"""The maximum number of payload bytes in a TLS record. Writes of 500 bytes cost three times as much
if each write has its own record."""


class Unsent:
    """A queue of writes that have not been encrypted."""

    def __init__(self) -> None:
        self._chunks: deque[memoryview] = deque()
        self.size_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def add(self, chunks: Iterable[Buffer]) -> None:
        """Appends chunks; small chunks are joined, large chunks are not copied."""
        chunks = list(chunks)
        size_bytes = sum(map(len, chunks))
        if size_bytes < len(chunks) * RECORD_BYTES:
            chunks = [b"".join(chunks)]
        self._chunks.extend(memoryview(chunk) for chunk in chunks if len(chunk))
        self.size_bytes += size_bytes

    def take(self, bytes_max: int) -> memoryview:
        """Removes and returns the first chunk, or its first ``bytes_max`` bytes."""
        chunk = self._chunks.popleft()
        if len(chunk) > bytes_max:
            self._chunks.appendleft(chunk[bytes_max:])
            chunk = chunk[:bytes_max]
        self.size_bytes -= len(chunk)
        return chunk

    def clear(self) -> None:
        self._chunks.clear()
        self.size_bytes = 0
