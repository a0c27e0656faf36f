"""Queues log lines, which a thread writes to file descriptors.

Standard error may be a file on a full disk, or a pipe without a reader; then writes fail. It may
also be a pipe whose reader does not read; then writes block. Code that logs must not be affected
(ARCHITECTURE.md, law 10), so it only adds lines to a queue. When the queue is full, the oldest
lines are dropped, because the last lines say why a broker stopped. A log line reports the number of
lost lines.

Queuing a line costs little. Waking the thread and writing the line costs 0.1 ms, several times as
much. So only the first line after a silence is written at once. During a burst, the thread writes
all queued lines every `GATHERED_S`. Only a drain or a half-full queue wakes it earlier.
"""

from __future__ import annotations

import io
import os
import select
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import structlog

from broker.time import Time

logger = structlog.get_logger(__name__)

QUEUED_BYTES_MAX = 1 << 20
"""The maximum number of bytes of queued lines."""
END_WITHIN_S = 2.0
"""The maximum time in seconds for which an ending process waits until queued lines are written."""
GATHERED_S = 0.01
"""The time in seconds for which the writing thread sleeps after a write, so that the next write
contains all lines of this time."""
_AT_ONCE_BYTES = 1 << 16


class LogWriter:
    """The queue of lines and the thread that writes them. The thread starts with the first line.

    Any thread may use this class.
    """

    def __init__(self, time: Time, queued_bytes_max: int = QUEUED_BYTES_MAX) -> None:
        self._time = time
        self.lost = 0
        """The number of lines that were not written."""
        self._reported = 0
        """The number of lost lines that log lines have already reported."""
        self._max = queued_bytes_max
        self._queue: deque[tuple[int, bytes]] = deque()
        """The queued lines, each with the descriptor to which it is written."""
        self._queued_bytes = 0
        self._changed = threading.Condition()
        self._started = False
        self._idle = True
        """True if the thread waits for lines; a queued line then wakes it."""
        self._drains = 0
        """The number of calls of `drain` that are waiting."""
        self._torn: set[int] = set()
        """The descriptors whose last write stopped in the middle of a line."""

    def put(self, descriptor: int, line: bytes) -> None:
        """Queues one line, which includes its line end. Never waits for the descriptor, and never
        raises."""
        with self._changed:
            self._queue.append((descriptor, line))
            self._queued_bytes += len(line)
            while self._queued_bytes > self._max and len(self._queue) > 1:
                self._queued_bytes -= len(self._queue.popleft()[1])
                self.lost += 1
            if not self._started:
                self._started = True
                self._time.start_thread(self._run, "log")
            if self._idle or self._is_half_full():
                self._idle = False
                self._changed.notify_all()

    def drain(self, within_s: float = END_WITHIN_S) -> bool:
        """Waits until all queued lines are written or lost; returns False after the timeout."""
        with self._changed:
            self._drains += 1
            self._changed.notify_all()
            try:
                return self._time.wait_in_thread(self._changed, lambda: self._idle, within_s)
            finally:
                self._drains -= 1

    def _run(self) -> None:
        while True:
            descriptor, lines = self._next()
            written = self._write(descriptor, lines)
            if written and self.lost > self._reported:
                lost, self._reported = self.lost - self._reported, self.lost
                with suppress(Exception):  # without this thread no further line would be written
                    logger.warning("log lines lost: they could not be written", lines=lost)
            self._gather()

    def _gather(self) -> None:
        """Waits for at most `GATHERED_S`, so that the next write has all lines of a burst."""
        with self._changed:
            self._time.wait_in_thread(
                self._changed, lambda: self._drains > 0 or self._is_half_full(), GATHERED_S
            )

    def _is_half_full(self) -> bool:
        return self._queued_bytes * 2 >= self._max

    def _next(self) -> tuple[int, list[bytes]]:
        """Waits until lines are queued. Returns the descriptor of the oldest line, and the oldest
        lines for this descriptor. Removes the returned lines from the queue."""
        with self._changed:
            while not self._queue:
                self._idle = True
                self._changed.notify_all()
                self._changed.wait()
            descriptor = self._queue[0][0]
            lines: list[bytes] = []
            size = 0
            while self._queue and self._queue[0][0] == descriptor and size < _AT_ONCE_BYTES:
                size += len(self._queue[0][1])
                lines.append(self._queue.popleft()[1])
            self._queued_bytes -= size
            return descriptor, lines

    def _write(self, descriptor: int, lines: list[bytes]) -> bool:
        """Writes ``lines``. Returns True if all were written. Otherwise adds the number of
        unwritten lines to the count of lost lines."""
        # After a partial line, the next line begins with a line end.
        begin = b"\n" if descriptor in self._torn else b""
        data = memoryview(begin + b"".join(lines))
        done = 0
        try:
            while done < len(data):
                try:
                    done += os.write(descriptor, data[done:])
                # another process that shares the descriptor made it non-blocking
                except BlockingIOError:
                    waiting = select.poll()
                    waiting.register(descriptor, select.POLLOUT)
                    waiting.poll()
        except OSError:
            whole, end = 0, len(begin)
            for line in lines:
                end += len(line)
                whole += end <= done
            self.lost += len(lines) - whole
            if done:
                torn = data[done - 1] != ord("\n")
                (self._torn.add if torn else self._torn.discard)(descriptor)
            return False
        self._torn.discard(descriptor)
        return True


class Stream(io.TextIOBase):
    """Standard output or standard error of a process. A `LogWriter` writes its lines."""

    def __init__(self, writer: LogWriter, descriptor: int, encoding: str) -> None:
        self._writer = writer
        self._descriptor = descriptor
        self._encoding = encoding
        self._begun = ""
        """The beginning of a line whose end was not written to this stream yet."""
        self._lock = threading.RLock()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def write(self, text: str) -> int:
        """Queues the complete lines of ``text``. Keeps an incomplete line until its line end is
        written to this stream."""
        with self._lock:
            whole, newline, self._begun = (self._begun + text).rpartition("\n")
            if newline:
                line = (whole + newline).encode(self._encoding, "backslashreplace")
                self._writer.put(self._descriptor, line)
        return len(text)

    def flush(self) -> None:
        """Does nothing, since no caller waits for a line to be written."""

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)


_writers: list[LogWriter] = []


def lost_lines() -> int:
    """Returns the number of lines that this process has lost so far."""
    return sum(writer.lost for writer in _writers)


@contextmanager
def standard_streams(time: Time) -> Iterator[LogWriter]:
    """Makes a `LogWriter` write standard output and standard error within the block.

    It writes log lines as well as the output of Python and its libraries. At the end of the block,
    queued lines are written for at most `END_WITHIN_S`.
    """
    _open_missing()
    writer = LogWriter(time)
    _writers.append(writer)
    before = sys.stdout, sys.stderr
    encodings = [getattr(stream, "encoding", None) or "utf-8" for stream in before]
    sys.stdout, sys.stderr = (
        Stream(writer, descriptor, encoding)
        for descriptor, encoding in zip((1, 2), encodings, strict=True)
    )
    try:
        yield writer
    finally:
        writer.drain()
        sys.stdout, sys.stderr = before


def _open_missing() -> None:
    """Opens /dev/null for each standard descriptor that is closed.

    Otherwise the next opened file would get this descriptor, and the output would be written into
    the file.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
