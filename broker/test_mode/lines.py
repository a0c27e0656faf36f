"""Stores the last lines of the broker's log, so that tests can read them."""

from __future__ import annotations

import io
from collections import deque
from typing import TextIO

KEPT = 1000


class KeptLines(io.TextIOBase):
    """A text stream that stores the last lines and writes all text to another stream.
    Thread-safe."""

    def __init__(self, onward: TextIO) -> None:
        self._onward = onward
        self._begun = ""
        self.last: deque[str] = deque(maxlen=KEPT)
        self.count = 0
        """The number of lines that were written."""

    def write(self, text: str) -> int:
        """Stores the lines that are complete after ``text``, and writes ``text`` to the other
        stream."""
        *whole, self._begun = (self._begun + text).split("\n")
        self.last.extend(whole)
        self.count += len(whole)
        return self._onward.write(text)

    def flush(self) -> None:
        """Flushes the other stream."""
        self._onward.flush()

    def isatty(self) -> bool:
        """Returns True if the other stream is a terminal."""
        return self._onward.isatty()

    def fileno(self) -> int:
        """The file descriptor of the other stream."""
        return self._onward.fileno()
