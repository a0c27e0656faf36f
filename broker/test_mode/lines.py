"""Stores the last lines of the broker's log, so that tests can read them."""

from __future__ import annotations

import io
from collections import deque
from typing import TextIO

KEPT = 1000


class KeptLines(io.TextIOBase):
    """A text stream that writes all text to another stream and stores the last lines.
    Thread-safe."""

    def __init__(self, onward: TextIO) -> None:
        self._onward = onward
        self._begun = ""
        self.last: deque[str] = deque(maxlen=KEPT)
        self.count = 0
        """The total number of lines written, including lines that are no longer stored."""

    def write(self, text: str) -> int:
        """Writes ``text`` to the stream ``onward``, and stores each line that is now complete."""
        *whole, self._begun = (self._begun + text).split("\n")
        self.last.extend(whole)
        self.count += len(whole)
        return self._onward.write(text)

    def flush(self) -> None:
        self._onward.flush()

    def isatty(self) -> bool:
        return self._onward.isatty()

    def fileno(self) -> int:
        return self._onward.fileno()
