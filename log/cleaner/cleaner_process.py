"""The cleaner process. It reads jobs from stdin, one per line, and writes its answers to stdout.

The process writes only ``.cleaned`` files. It exits when stdin is closed, so that it never outlives
the broker. The broker starts it with ``python -m log.cleaner.cleaner_process``.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import BinaryIO

from log.cleaner.clean_job import Answer, CleanFailed, CleanProgress, decode_job, encode_answer
from log.cleaner.cleaner import clean
from log.files.filesystem import FileSystem, OsFileSystem

PROGRESS_S = 1.0


class Throttle:
    """Limits the rate of the bytes that are read and written, and emits the progress of the
    cleaning."""

    def __init__(
        self,
        bytes_per_second: float,
        emit: Callable[[CleanProgress], None],
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._rate = bytes_per_second
        """The limit in bytes per second; 0 for no limit."""
        self._emit = emit
        self._clock = clock
        self._sleep = sleep
        self._since = self._emitted = clock()
        self._bytes = 0

    def __call__(self, count: int) -> None:
        """Counts ``count`` bytes, and waits until the rate of all counted bytes is below the
        limit."""
        self._bytes += count
        while True:
            now = self._clock()
            if now - self._emitted >= PROGRESS_S:
                self._emitted = now
                self._emit(CleanProgress(self._bytes))
            ahead = self._bytes / self._rate - (now - self._since) if self._rate > 0 else 0.0
            if ahead <= 0:
                return
            self._sleep(min(ahead, PROGRESS_S))


def serve(
    lines: Callable[[], bytes],
    write: Callable[[bytes], None],
    fs: FileSystem,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> None:
    """Executes the cleaning jobs that ``lines`` returns, one job per call, until ``lines`` returns
    an empty line. ``clock`` returns seconds, and ``sleep`` accepts seconds."""

    def emit(answer: Answer) -> None:
        write(encode_answer(answer))

    while line := lines():
        began = clock()
        try:
            job = decode_job(line, iter(lines, b""))
            done = clean(fs, job, emit, Throttle(job.bytes_per_second, emit, clock, sleep))
            done.milliseconds = int((clock() - began) * 1000)
            emit(done)
        except Exception as error:  # noqa: BLE001 - any failure must reach the broker
            emit(CleanFailed(f"{type(error).__name__}: {error}"))


def _read_into(queue: SimpleQueue[bytes], source: BinaryIO) -> None:
    for line in source:
        queue.put(line)
    os._exit(0)  # the broker has ended; its successor removes the unfinished files


def main() -> None:
    """Does the jobs of the parent process. This function is the entry point of the process. It uses
    the system's clock, sleep and threads directly, and passes them as arguments to the functions
    that it calls."""
    queue: SimpleQueue[bytes] = SimpleQueue()
    Thread(target=_read_into, args=(queue, sys.stdin.buffer), daemon=True).start()
    out = sys.stdout.buffer

    def write(line: bytes) -> None:
        out.write(line)
        out.flush()

    serve(queue.get, write, OsFileSystem(), time.monotonic, time.sleep)


if __name__ == "__main__":
    main()
