"""Tests that the log writer never raises or blocks in the calling code, and that it counts lost
lines."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from broker.loop import log_writer
from broker.loop.log_writer import LogWriter, Stream
from broker.time import Time
from tests.brokers import CHECKOUT


@pytest.fixture(autouse=True)
def warnings() -> Iterator[list[Any]]:
    structlog.reset_defaults()
    with capture_logs() as lines:
        yield lines


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """Yields the read end and the write end of a pipe."""
    reading, writing = os.pipe()
    yield reading, writing
    for descriptor in (reading, writing):
        with suppress(OSError):
            os.close(descriptor)


def fill(writing: int) -> int:
    """Fills the pipe. Returns the number of bytes written."""
    os.set_blocking(writing, False)
    size = 0
    with suppress(BlockingIOError):
        while True:
            size += os.write(writing, b"." * 512)
    os.set_blocking(writing, True)
    return size


def read_until(reading: int, end: bytes) -> bytes:
    data = b""
    while not data.endswith(end):
        data += os.read(reading, 1 << 16)
    return data


def test_log_lines_are_written_completely_and_in_order(pipe: tuple[int, int]) -> None:
    writer = LogWriter(Time())
    stream = Stream(writer, pipe[1], "utf-8")
    print("one", end="", file=stream)
    print(", two\nthree", file=stream)
    print("lone surrogate \ud800", file=stream, flush=True)
    assert writer.drain()
    assert os.read(pipe[0], 1000) == b"one, two\nthree\nlone surrogate \\ud800\n"


def test_oldest_log_lines_are_dropped_without_blocking_when_the_pipe_is_full(
    pipe: tuple[int, int], warnings: list[Any]
) -> None:
    filled = fill(pipe[1])
    writer = LogWriter(Time(), queued_bytes_max=1000)
    for number in range(10_000):
        writer.put(pipe[1], b"line %d\n" % number)
    assert not writer.drain(0.01)

    got: list[bytes] = []
    last = b"line 9999\n"
    reader = threading.Thread(target=lambda: got.append(read_until(pipe[0], last)))
    reader.start()
    assert writer.drain(10)
    reader.join(10)
    lines = [int(number) for number in got[0][filled:].split()[1::2]]
    assert lines == sorted(lines)
    assert len(lines) + writer.lost == 10_000
    assert writer.lost > 5_000
    assert [line["lines"] for line in warnings] == [writer.lost]


def test_burst_of_log_lines_is_written_by_one_write(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_writer, "GATHERED_S", 60.0)
    write = os.write
    sizes: list[int] = []

    def counted(descriptor: int, data: bytes) -> int:
        sizes.append(len(data))
        return write(descriptor, data)

    monkeypatch.setattr(log_writer.os, "write", counted)
    writer = LogWriter(Time())
    writer.put(pipe[1], b"first\n")
    assert os.read(pipe[0], 1000) == b"first\n"
    burst = [b"line %d\n" % number for number in range(1000)]
    for line in burst:
        writer.put(pipe[1], line)
    assert writer.drain(30), "a drain ends the wait for more lines"
    assert read_until(pipe[0], burst[-1]) == b"".join(burst)
    assert sizes == [6, len(b"".join(burst))]


def test_log_line_is_written_although_no_further_line_follows(
    pipe: tuple[int, int],
) -> None:
    writer = LogWriter(Time())
    for line in (b"first\n", b"second\n", b"third\n"):
        writer.put(pipe[1], line)
        assert os.read(pipe[0], 1000) == line


def test_half_full_queue_of_log_lines_is_written_immediately(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_writer, "GATHERED_S", 60.0)
    writer = LogWriter(Time(), queued_bytes_max=1000)
    writer.put(pipe[1], b"first\n")
    assert os.read(pipe[0], 1000) == b"first\n"
    for _ in range(50):
        writer.put(pipe[1], b"ten bytes\n")
    assert read_until(pipe[0], b"ten bytes\n").startswith(b"ten bytes\n")
    assert writer.lost == 0


def test_lost_log_lines_are_counted_and_logged_at_the_next_write(
    pipe: tuple[int, int], warnings: list[Any]
) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    writer = LogWriter(Time())
    for _ in range(3):
        writer.put(full, b"lost\n")
        assert writer.drain()
    assert (writer.lost, warnings) == (3, [])

    os.dup2(pipe[1], full)
    writer.put(full, b"kept\n")
    assert writer.drain()
    os.close(full)
    assert os.read(pipe[0], 1000) == b"kept\n"
    assert [line["lines"] for line in warnings] == [3]


def test_log_line_is_dropped_without_an_exception_when_pipe_is_closed(
    pipe: tuple[int, int],
) -> None:
    os.close(pipe[0])
    writer = LogWriter(Time())
    writer.put(pipe[1], b"lost\n")
    assert writer.drain()
    assert writer.lost == 1


def test_log_line_starts_on_a_new_line_after_a_partially_written_line(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    room = [9]

    def short(descriptor: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(28, "No space left on device")
        done = write(descriptor, data[: room[0]])
        room[0] -= done
        return done

    writer = LogWriter(Time())
    with monkeypatch.context() as patched:
        patched.setattr(log_writer.os, "write", short)
        writer._write(pipe[1], [b"whole\n", b"torn apart\n"])
    assert writer.lost == 1
    writer._write(pipe[1], [b"another\n"])
    assert os.read(pipe[0], 1000) == b"whole\ntor\nanother\n"


def test_other_log_lines_are_written_when_the_repr_of_a_value_raises_an_exception() -> None:
    program = """
import structlog
from broker.loop.log_lines import configure
logger = structlog.get_logger()
from broker.time import Time
class Bad:
    def __repr__(self):
        raise ValueError
    __str__ = __repr__
configure(Time(), {form!r})
logger.info("before")
logger.info("in the middle", value=Bad())
try:
    raise Exception(Bad())
except Exception:
    logger.exception("behind")
"""
    for form in ("console", "json"):
        done = subprocess.run(
            [sys.executable, "-c", program.replace("{form!r}", repr(form))],
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
            check=True,
        )
        assert "before" in done.stderr
        assert "in the middle" in done.stderr
        assert "behind" in done.stderr


ENDS = {
    "sys.exit": "sys.exit(7)",
    "an exception": "raise ZeroDivisionError",
    "the end": "pass",
}


@pytest.mark.parametrize("how", ENDS)
def test_process_exit_waits_for_queued_log_lines(how: str) -> None:
    program = f"""
import sys
from broker.loop.log_writer import standard_streams
from broker.time import Time
with standard_streams(Time()):
    for number in range(50_000):
        print("line", number)
    print("the reason", file=sys.stderr)
    {ENDS[how]}
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    assert done.returncode == {"sys.exit": 7, "an exception": 1, "the end": 0}[how]
    assert done.stdout.endswith("line 49999\n")
    assert done.stderr.startswith("the reason\n")
