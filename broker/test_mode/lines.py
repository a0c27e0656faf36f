"""The last lines of the broker's log, kept for tests."""

from __future__ import annotations

import io
from collections import deque
from typing import TextIO

KEPT = 1000


class KeptLines(io.TextIOBase):
    """A text stream before another: hands everything on and keeps the last lines; any thread."""

    def __init__(self, onward: TextIO) -> None:
        self._onward = onward
        self._begun = ""
        self.last: deque[str] = deque(maxlen=KEPT)
        self.count = 0
        """How many there were."""

    def write(self, text: str) -> int:
        """Keep the lines that end in ``text``."""
        *whole, self._begun = (self._begun + text).split("\n")
        self.last.extend(whole)
        self.count += len(whole)
        return self._onward.write(text)

    def flush(self) -> None:
        """As the other does."""
        self._onward.flush()

    def isatty(self) -> bool:
        """Whether the other is."""
        return self._onward.isatty()

    def fileno(self) -> int:
        """The other's."""
        return self._onward.fileno()
