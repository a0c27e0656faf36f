"""Runs, in separate threads, reads that wait for the disk.

The event loop reads only data that is in the page cache, because a read from the disk may take a
second. The reads do not use the threads of `Time.in_thread`: many reads would delay the fsyncs in
these threads, and so the acknowledgements that wait for the fsyncs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from broker.time import Time

Result = TypeVar("Result")

THREADS = 8
"""The number of threads, which is the default of Kafka's num.io.threads."""


class DiskReads:
    """The threads that read from the disk. Only the event loop's thread may use this class."""

    def __init__(self, time: Time) -> None:
        self._threads = time.real.threads(THREADS, "disk")
        self.done = 0
        """The number of reads since the process began."""

    def read(self, job: Callable[[], Result]) -> asyncio.Future[Result]:
        """Runs ``job`` in a thread. The future gets its result or its exception. ``job`` may only
        read files."""
        self.done += 1
        return self._threads.run(job)

    def stop(self) -> None:
        """Makes each thread end after its current read."""
        self._threads.stop()
