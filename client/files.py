"""Reads the files that a client's settings name."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from client.errors import ClientError

BYTES_MAX: Final = 16 << 20
"""The maximum number of bytes that are read from a file. A limit is necessary, since a device such
as /dev/zero is endless."""


def read_bytes(place: Path | str) -> bytes:
    """Returns the content of a file. Raises ClientError with the file's name."""
    try:
        with Path(place).open("rb") as file:
            found = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise ClientError(f"{place} can't be read: {error.strerror}") from None
    if len(found) > BYTES_MAX:
        raise ClientError(f"{place} is larger than {BYTES_MAX >> 20} MiB")
    return found
