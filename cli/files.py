"""Text files that commands read and write; every failure is a CommandError."""

from __future__ import annotations

import os
from pathlib import Path

from cli.errors import USAGE, CommandError

MOST = 256 << 20
"""The maximum number of characters to read, because a device such as /dev/zero is endless."""


def read_text(path: Path) -> str:
    """Return the content of a text file; raise CommandError if the file can't be read."""
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
    """Write a file, or replace an existing file; raise CommandError if the write fails."""
    try:
        path.write_text(text)
    except OSError as error:
        raise not_written(path, error) from None


def write_new(path: Path, text: str, option: str) -> None:
    """Write and fsync a file that must not exist yet; errors name ``option``."""
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
    """Return the error for a file that can't be read."""
    return CommandError(f"{path} can't be read: {error.strerror}", USAGE)


def not_written(path: Path, error: OSError) -> CommandError:
    """Return the error for a file or folder that can't be written."""
    return CommandError(f"{path} can't be written: {error.strerror}")
