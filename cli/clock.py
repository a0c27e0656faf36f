"""The only module of `cli/` that reads a clock, sleeps, or starts a thread.

`cli/times.py` parses and formats times.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor


def now() -> datetime:
    return datetime.now(UTC)


def now_ms() -> int:
    """Returns the wall clock in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def monotonic_s() -> float:
    """Returns the monotonic clock in seconds, for timeouts."""
    return time.monotonic()


class Deadline:
    """The deadline of an operation with several steps, ``seconds`` after its creation."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._ends_s = monotonic_s() + seconds

    def left_s(self) -> float:
        """Returns the number of seconds until the deadline. The minimum is 1 ms, because 0 would
        mean no timeout."""
        return max(self._ends_s - monotonic_s(), 0.001)


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def start_thread(work: Callable[[], None]) -> threading.Thread:
    """Runs ``work`` in a daemon thread, which does not keep the process alive."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def join(thread: threading.Thread, seconds: float) -> None:
    thread.join(seconds)


def threads(number: int = 1) -> ThreadPoolExecutor:
    """Returns an executor with ``number`` threads. At the end of its ``with`` block, it waits for
    the threads."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(number)
