"""Reads that wait for the disk, in threads of their own.

What the page cache has is read on the event loop; a cold disk may take a second for it. The threads
are not those of `asyncio.to_thread`, in which logs are flushed: many cold readers must hold up no
acknowledgement.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")

THREADS = 8
"""As many as Apache Kafka's num.io.threads has by default."""


class DiskReads:
    """The threads; use from the event loop's thread alone."""

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None
        self.done = 0
        """Reads since the process began."""

    def read(self, job: Callable[[], Result]) -> asyncio.Future[Result]:
        """What ``job()`` returns or raises, which reads files and changes nothing."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="disk")
        self.done += 1
        return asyncio.get_running_loop().run_in_executor(self._executor, job)

    def stop(self) -> None:
        """Let the threads end after the reads that they are at."""
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
            self._executor = None
