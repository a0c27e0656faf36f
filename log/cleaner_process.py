"""The process that cleans, beside the broker's: a job a line on stdin, its answers on stdout.

It writes ``.cleaned`` files and nothing else, and ends when stdin does, so that it never outlives
the broker. Started with ``python -m log.cleaner_process``.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import BinaryIO

from log.clean_job import Answer, CleanFailed, decode_job, encode_answer
from log.cleaner import clean
from log.errors import CorruptLog
from log.filesystem import FileSystem, OsFileSystem


class Throttle:
    """Holds reading and writing together to so many bytes a second."""

    def __init__(
        self,
        bytes_per_second: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate = bytes_per_second
        self._clock = clock
        self._sleep = sleep
        self._since = clock()
        self._bytes = 0

    def __call__(self, count: int) -> None:
        """Wait until ``count`` more bytes are within the rate."""
        self._bytes += count
        ahead = self._bytes / self._rate - (self._clock() - self._since)
        if ahead > 0:
            self._sleep(ahead)


def serve(lines: Callable[[], bytes], write: Callable[[bytes], None], fs: FileSystem) -> None:
    """Do the jobs of ``lines`` until an empty one."""

    def tell(answer: Answer) -> None:
        write(encode_answer(answer))

    while line := lines():
        try:
            job = decode_job(line)
            rate = job.bytes_per_second
            tell(clean(fs, job, tell, Throttle(rate) if rate > 0 else None))
        except (CorruptLog, OSError, ValueError, TypeError) as error:
            tell(CleanFailed(f"{type(error).__name__}: {error}"))


def _read_into(queue: SimpleQueue[bytes], source: BinaryIO) -> None:
    for line in source:
        queue.put(line)
    os._exit(0)  # the broker has gone, however: what is half done is its successor's to remove


def main() -> None:
    """Serve the process that started this one."""
    queue: SimpleQueue[bytes] = SimpleQueue()
    Thread(target=_read_into, args=(queue, sys.stdin.buffer), daemon=True).start()
    out = sys.stdout.buffer

    def write(line: bytes) -> None:
        out.write(line)
        out.flush()

    serve(queue.get, write, OsFileSystem())


if __name__ == "__main__":
    main()
