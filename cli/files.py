"""Text files that commands read and write. Every failure raises CommandError."""

from __future__ import annotations

import os
from pathlib import Path

from cli.errors import USAGE, CommandError

MOST = 256 << 20
"""The maximum number of characters that are read. A limit is necessary, because a device such as
/dev/zero is endless."""


def read_text(path: Path) -> str:
    """Returns the content of a text file. Raises CommandError if it can't be read."""
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(MOST)
            if file.read(1):
                raise CommandError(f"{path} is larger than {MOST >> 20} MiB", USAGE)
            return text
    except OSError as error:
        raise unreadable(path, error) from None
    except UnicodeDecodeError:
        raise CommandError(f"{path} is not a text file", USAGE) from None


def write_text(path: Path, text: str) -> None:
    """Writes a file, or replaces an existing file. Raises CommandError if the write fails."""
    try:
        path.write_text(text)
    except OSError as error:
        raise not_written(path, error) from None


def write_new(path: Path, text: str, option: str) -> None:
    """Writes and fsyncs a new file. Raises CommandError if the file exists; the error advises
    another value of ``option``. Also raises CommandError if the write fails."""
    try:
        with path.open("x") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        raise CommandError(f"{path} already exists: choose another {option}", USAGE) from None
    except OSError as error:
        raise not_written(path, error) from None


def unreadable(path: Path, error: OSError) -> CommandError:
    return CommandError(f"{path} can't be read: {error.strerror}", USAGE)


def not_written(path: Path, error: OSError) -> CommandError:
    return CommandError(f"{path} can't be written: {error.strerror}")
