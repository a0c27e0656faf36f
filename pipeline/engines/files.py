"""The file system interface of a store."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol


class Files(Protocol):
    """The file system interface of a store; all paths are absolute."""

    def exists(self, path: str) -> bool:
        """Return True if a file or folder exists."""

    def rename(self, path: str, to: str) -> None:
        """Move a file or folder to a name that does not exist."""

    def delete(self, path: str) -> None:
        """Delete a file, or a folder with its content; do nothing if it does not exist."""

    def read_text(self, path: str) -> str | None:
        """Return the text of a file, with invalid UTF-8 replaced; None if the file does not
        exist.
        """

    def write_text(self, path: str, text: str) -> None:
        """Write a file and create its folders; an existing file is replaced atomically."""


class LocalFiles:
    """The file system of this machine."""

    def exists(self, path: str) -> bool:
        """Implements `Files.exists`."""
        return os.path.exists(path)

    def rename(self, path: str, to: str) -> None:
        """Implements `Files.rename`."""
        os.rename(path, to)

    def delete(self, path: str) -> None:
        """Implements `Files.delete`."""
        if os.path.isdir(path):
            shutil.rmtree(path)
        elif os.path.exists(path):
            os.unlink(path)

    def read_text(self, path: str) -> str | None:
        """Implements `Files.read_text`."""
        try:
            return Path(path).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return None

    def write_text(self, path: str, text: str) -> None:
        """Implements `Files.write_text`."""
        os.makedirs(os.path.dirname(path), exist_ok=True)
        partial = beside(path)
        with open(partial, "w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        os.replace(partial, path)


def beside(path: str) -> str:
    """Return the path under which a file is written before its rename; a leftover can be
    deleted.
    """
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.partial")


def parquet_files(place: str) -> Iterator[str]:
    """Return a file, or the Parquet files in a folder, except names that begin with a dot or _."""
    if not os.path.isdir(place):
        yield place
        return
    for folder, folders, names in os.walk(place):
        folders[:] = sorted(name for name in folders if name[0] not in "._")
        for name in sorted(names):
            if name.endswith(".parquet") and name[0] not in "._":
                yield os.path.join(folder, name)
