"""The data directory of a broker that is stopped, for commands that change its files themselves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from log.filesystem import FileSystem, OsFileSystem


def files() -> FileSystem:
    """The files of this machine."""
    return OsFileSystem()


@contextmanager
def held(directory: str) -> Iterator[FileSystem]:
    """``with`` this no broker has the directory, which is made where there is none yet.

    Raises DirectoryLocked where one has it, and OSError.
    """
    fs = files()
    fs.make_directory(os.path.abspath(directory))
    lock = fs.lock(directory)
    try:
        yield fs
    finally:
        lock.release()
