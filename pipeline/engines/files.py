"""File systems as a store needs them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol


class Files(Protocol):
    """A file system as a store needs it; all paths are whole."""

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder."""

    def rename(self, path: str, to: str) -> None:
        """Move a file or folder to a name that is free."""

    def delete(self, path: str) -> None:
        """Delete a file, or a folder with all in it; nothing happens when there is none."""

    def read_text(self, path: str) -> str | None:
        """A file's text, any bytes that are not UTF-8 replaced; None when there is no file."""

    def write_text(self, path: str, text: str) -> None:
        """Write a file, and the folders above it; one that is there is replaced, whole or not at
        all.
        """


class LocalFiles:
    """This machine's."""

    def exists(self, path: str) -> bool:
        """See Files."""
        return os.path.exists(path)

    def rename(self, path: str, to: str) -> None:
        """See Files."""
        os.rename(path, to)

    def delete(self, path: str) -> None:
        """See Files."""
        if os.path.isdir(path):
            shutil.rmtree(path)
        elif os.path.exists(path):
            os.unlink(path)

    def read_text(self, path: str) -> str | None:
        """See Files."""
        try:
            return Path(path).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return None

    def write_text(self, path: str, text: str) -> None:
        """See Files."""
        os.makedirs(os.path.dirname(path), exist_ok=True)
        partial = beside(path)
        with open(partial, "w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        os.replace(partial, path)


def beside(path: str) -> str:
    """Where a file is written before it takes its place: what is left there is of no use."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.partial")


def parquet_files(place: str) -> Iterator[str]:
    """A file itself, or those in a folder; names that begin with a dot or _ are no one's rows."""
    if not os.path.isdir(place):
        yield place
        return
    for folder, folders, names in os.walk(place):
        folders[:] = sorted(name for name in folders if name[0] not in "._")
        for name in sorted(names):
            if name.endswith(".parquet") and name[0] not in "._":
                yield os.path.join(folder, name)
