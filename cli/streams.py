"""The standard streams, as they may be: closed, broken, on a full disk, or without some letters."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from cli.errors import CommandError

_unread: list[TextIO] = []
"""Standard outputs that lost their reader: what is written to them now goes nowhere."""


class NobodyReads(Exception):
    """Standard output was closed by its reader, and what would be written has no end."""


def prepare() -> None:
    """Open what was closed (``<&-``), so that no socket gets its number; write every letter.

    What an encoding lacks is written as an escape: a name must not end a command.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, open(number, mode, encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def write(text: str) -> None:
    """Write to standard output at once, and go on when nobody reads it any more (``| head -1``).

    CommandError when it can't be written.
    """
    with suppress(NobodyReads):
        follow(text)


def follow(text: str) -> None:
    """As `write`, for what has no end of its own: NobodyReads once the reader is gone."""
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
    """As `follow`, for bytes as they are; what they may wait for is `flush`."""
    with _followed():
        sys.stdout.buffer.write(data)


def flush() -> None:
    """Have left what was written; NobodyReads once the reader is gone."""
    with _followed():
        sys.stdout.flush()


def unwritable(error: OSError) -> CommandError:
    """The error for a standard output on a full disk, or the like."""
    discard()
    return CommandError(f"standard output can't be written: {error.strerror}")


def discard() -> None:
    """Let what is still written to standard output vanish, at the process's end too."""
    _unread.append(sys.stdout)
    with suppress(OSError, ValueError):
        number = os.open(os.devnull, os.O_WRONLY)
        os.dup2(number, sys.stdout.fileno())
        os.close(number)
