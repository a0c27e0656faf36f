"""Writes to the standard streams even if they are closed, broken or full."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from cli.errors import CommandError

_unread: list[TextIO] = []
"""The standard outputs whose reader has closed the pipe. Later output to them is discarded."""


class NobodyReads(Exception):
    """Raised if the reader of an endless output has closed the pipe. The command must then end."""


def prepare() -> None:
    """Opens standard streams that are closed (``<&-``), so that no socket gets their file
    descriptors. Makes the output escape characters that its encoding lacks, so that no name makes a
    command fail."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, open(number, mode, encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def write(text: str) -> None:
    """Writes to standard output and flushes it. Ignores a pipe that its reader has closed, such as
    ``| head -1``. Raises CommandError if the output can't be written."""
    with suppress(NobodyReads):
        follow(text)


def follow(text: str) -> None:
    """Writes endless output to standard output and flushes it. Raises NobodyReads if the reader has
    closed the pipe."""
    with _followed():
        sys.stdout.write(text)
        sys.stdout.flush()


@contextmanager
def _followed() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        discard()
        raise NobodyReads from None
    except OSError as error:
        raise unwritable(error) from None
    if sys.stdout in _unread:
        raise NobodyReads


def follow_bytes(data: bytes) -> None:
    """Writes bytes of endless output without a flush. Raises NobodyReads if the reader has closed
    the pipe."""
    with _followed():
        sys.stdout.buffer.write(data)


def flush() -> None:
    """Flushes standard output. Raises NobodyReads if the reader has closed the pipe."""
    with _followed():
        sys.stdout.flush()


def unwritable(error: OSError) -> CommandError:
    """Returns the error for a standard output that can't be written, for example because the disk
    is full."""
    discard()
    return CommandError(f"standard output can't be written: {error.strerror}")


def discard() -> None:
    """Discards all further standard output, including the output that is flushed at exit."""
    _unread.append(sys.stdout)
    with suppress(OSError, ValueError):
        number = os.open(os.devnull, os.O_WRONLY)
        os.dup2(number, sys.stdout.fileno())
        os.close(number)
