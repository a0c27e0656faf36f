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
    """The wall clock, in UTC."""
    return datetime.now(UTC)


def now_ms() -> int:
    """The wall clock, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def monotonic_s() -> float:
    """Seconds since an arbitrary moment, for timeouts."""
    return time.monotonic()


class Deadline:
    """The deadline of an operation of several steps, ``seconds`` from now."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._ends_s = monotonic_s() + seconds

    def left_s(self) -> float:
        """Return the seconds until the deadline, at least 1 ms, because 0 would mean no timeout."""
        return max(self._ends_s - monotonic_s(), 0.001)


def sleep(seconds: float) -> None:
    """Block the thread for some seconds."""
    time.sleep(seconds)


def start_thread(work: Callable[[], None]) -> threading.Thread:
    """Run ``work`` in a daemon thread, which does not keep the process alive."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def join(thread: threading.Thread, seconds: float) -> None:
    """Wait for the end of ``thread``, at most ``seconds``."""
    thread.join(seconds)


def threads(number: int = 1) -> ThreadPoolExecutor:
    """Return an executor with ``number`` threads; its ``with`` block waits for the threads."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(number)
