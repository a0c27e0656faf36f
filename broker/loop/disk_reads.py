"""Reads that wait for the disk, in threads of their own.

The event loop reads what the page cache has; a cold disk may take a second. The threads are not
those of `Time.in_thread`, in which logs are flushed: many cold readers must delay no
acknowledgement.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from broker.time import Time

Result = TypeVar("Result")

THREADS = 8
"""As many as Apache Kafka's num.io.threads has by default."""


class DiskReads:
    """The threads; use from the event loop's thread alone."""

    def __init__(self, time: Time) -> None:
        self._threads = time.real.threads(THREADS, "disk")
        self.done = 0
        """Reads since the process began."""

    def read(self, job: Callable[[], Result]) -> asyncio.Future[Result]:
        """What ``job()`` returns or raises, which reads files and changes nothing."""
        self.done += 1
        return self._threads.run(job)

    def stop(self) -> None:
        """Let the threads end after the reads that they are at."""
        self._threads.stop()
