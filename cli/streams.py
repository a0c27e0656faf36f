"""The standard streams, even if closed, broken, on a full disk, or in a limited encoding."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from cli.errors import CommandError

_unread: list[TextIO] = []
"""Standard outputs that lost their reader: later output to them is discarded."""


class NobodyReads(Exception):
    """Standard output was closed by its reader, and the output is endless."""


def prepare() -> None:
    """Open closed streams (``<&-``), so that no socket gets their number, and escape characters.

    Characters that the encoding lacks are escaped, so that a name can't fail a command.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, open(number, mode, encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def write(text: str) -> None:
    """Write to standard output and flush; ignore that its reader is gone (``| head -1``).

    CommandError if it can't be written.
    """
    with suppress(NobodyReads):
        follow(text)


def follow(text: str) -> None:
    """Like `write`, for endless output: NobodyReads once the reader is gone."""
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
    """Like `follow`, for bytes and without the flush."""
    with _followed():
        sys.stdout.buffer.write(data)


def flush() -> None:
    """Flush standard output; NobodyReads once the reader is gone."""
    with _followed():
        sys.stdout.flush()


def unwritable(error: OSError) -> CommandError:
    """The error for a standard output that can't be written, as on a full disk."""
    discard()
    return CommandError(f"standard output can't be written: {error.strerror}")


def discard() -> None:
    """Discard all further standard output, also at the process's exit."""
    _unread.append(sys.stdout)
    with suppress(OSError, ValueError):
        number = os.open(os.devnull, os.O_WRONLY)
        os.dup2(number, sys.stdout.fileno())
        os.close(number)
