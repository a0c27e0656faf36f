"""The writes of a connection that TLS has not encrypted yet, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from protocol.buffer import Buffer

RECORD_BYTES = 16 * 1024
"""The most that a record holds. 500 bytes cost three times as much in a record of their own."""


class Unsent:
    """See the module."""

    def __init__(self) -> None:
        self._chunks: deque[memoryview] = deque()
        self.size_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def add(self, chunks: Iterable[Buffer]) -> None:
        """Puts them behind the others: small ones joined, large ones as they are."""
        chunks = list(chunks)
        size_bytes = sum(map(len, chunks))
        if size_bytes < len(chunks) * RECORD_BYTES:
            chunks = [b"".join(chunks)]
        self._chunks.extend(memoryview(chunk) for chunk in chunks if len(chunk))
        self.size_bytes += size_bytes

    def take(self, bytes_max: int) -> memoryview:
        """The first of it: a chunk, or so many bytes of one."""
        chunk = self._chunks.popleft()
        if len(chunk) > bytes_max:
            self._chunks.appendleft(chunk[bytes_max:])
            chunk = chunk[:bytes_max]
        self.size_bytes -= len(chunk)
        return chunk

    def clear(self) -> None:
        """Drops all of it."""
        self._chunks.clear()
        self.size_bytes = 0
