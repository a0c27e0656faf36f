"""Reads that wait for the disk, in separate threads.

The event loop reads only data that is in the page cache, because a read from the disk may take a
second. These threads are not the threads of `Time.in_thread`, which fsync logs: many disk reads
must not delay an acknowledgement.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from broker.time import Time

Result = TypeVar("Result")

THREADS = 8
"""The number of threads: the default of Kafka's num.io.threads."""


class DiskReads:
    """The threads that read from the disk; only the event loop's thread may use it."""

    def __init__(self, time: Time) -> None:
        self._threads = time.real.threads(THREADS, "disk")
        self.done = 0
        """The number of reads since the process began."""

    def read(self, job: Callable[[], Result]) -> asyncio.Future[Result]:
        """Runs ``job``, which reads files and changes nothing; returns its result or raises its
        exception."""
        self.done += 1
        return self._threads.run(job)

    def stop(self) -> None:
        """Makes each thread end after its current read."""
        self._threads.stop()
