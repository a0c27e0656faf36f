"""The interface of a file system on which the tables are stored, and its implementation for this
machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol


class Files(Protocol):
    """A file system on which the tables are stored. All paths are absolute."""

    def exists(self, path: str) -> bool: ...

    def rename(self, path: str, to: str) -> None:
        """Rename a file or folder. The new name must not exist."""

    def delete(self, path: str) -> None:
        """Delete a file, or a folder with its content. Do nothing if it does not exist."""

    def read_text(self, path: str) -> str | None:
        """Return the text of a file, with invalid UTF-8 replaced; None if the file does not
        exist.
        """

    def write_text(self, path: str, text: str) -> None:
        """Write a file and create its folders. An existing file is replaced atomically."""


class LocalFiles:
    """The file system of this machine."""

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def rename(self, path: str, to: str) -> None:
        os.rename(path, to)

    def delete(self, path: str) -> None:
        if os.path.isdir(path):
            shutil.rmtree(path)
        elif os.path.exists(path):
            os.unlink(path)

    def read_text(self, path: str) -> str | None:
        try:
            return Path(path).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return None

    def write_text(self, path: str, text: str) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        partial = beside(path)
        with open(partial, "w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        os.replace(partial, path)


def beside(path: str) -> str:
    """Return the temporary path under which a file is written before it is renamed to ``path``. A
    file that remains there can be deleted."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.partial")


def parquet_files(place: str) -> Iterator[str]:
    """Yield the file ``place``, or the Parquet files in the folder ``place``. Names that begin with
    a dot or _ are left out."""
    if not os.path.isdir(place):
        yield place
        return
    for folder, folders, names in os.walk(place):
        folders[:] = sorted(name for name in folders if name[0] not in "._")
        for name in sorted(names):
            if name.endswith(".parquet") and name[0] not in "._":
                yield os.path.join(folder, name)
