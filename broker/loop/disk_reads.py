"""Reads that wait for the disk, in threads of their own.

The event loop reads what the page cache has; a cold disk may take a second. The threads are not
those of `Time.in_thread`, which fsync logs: many cold reads must not delay an acknowledgement.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from broker.time import Time

Result = TypeVar("Result")

THREADS = 8
"""The default of Apache Kafka's num.io.threads."""


class DiskReads:
    """The threads; use from the event loop's thread alone."""

    def __init__(self, time: Time) -> None:
        self._threads = time.real.threads(THREADS, "disk")
        self.done = 0
        """Reads since the process began."""

    def read(self, job: Callable[[], Result]) -> asyncio.Future[Result]:
        """Runs ``job``, which reads files and changes nothing; returns or raises its result."""
        self.done += 1
        return self._threads.run(job)

    def stop(self) -> None:
        """Let the threads end after their current reads."""
        self._threads.stop()
