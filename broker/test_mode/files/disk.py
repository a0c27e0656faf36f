"""The disk of a tested broker, in memory or in a directory, with simulated faults. All runs of the
broker use the same disk."""

from __future__ import annotations

import os
from pathlib import Path

from broker.test_mode.files.disk_faults import DiskFaults
from broker.test_mode.files.faulty_files import FaultyFiles
from broker.test_mode.files.memory_files import MemoryFiles
from broker.test_mode.refusals import NotNow
from broker.time import Time
from log.files.filesystem import FileSystem, OsFileSystem, open_files_max

MARK = ".muster-test"
"""The name of a file that `--test` creates in a data directory that is empty at its first use.
`POST /test/reset` may empty only a directory with this file."""
_IN_MEMORY = "/data"


class Disk:
    """The data of a tested broker, in memory or in a directory."""

    def __init__(self, directory: str | None, time: Time) -> None:
        """Creates the object without opening files. If ``directory`` is None, the data is in
        memory."""
        self.in_memory = directory is None
        self.directory = _IN_MEMORY if directory is None else os.path.abspath(directory)
        self.faults = DiskFaults()
        self._time = time
        self._files: FileSystem = self._memory() if self.in_memory else _real()
        self._was_empty = False

    def files(self) -> FaultyFiles:
        """Returns the file system for a new run of the broker. Raises OSError if the directory
        can't be created."""
        if not self.in_memory:
            self._mark()
        return FaultyFiles(self._files, self.faults)

    def check_emptying(self) -> None:
        """Raises NotNow if the directory contained data when `--test` first used it."""
        if not self.in_memory and not Path(self.directory, MARK).exists():
            raise NotNow(
                f"{self.directory} contained data when a test broker first used it, and reset must"
                " not delete this data: to use reset, start with an empty directory or without"
                " --data"
            )

    def empty(self) -> None:
        self.faults.end_all()
        if self.in_memory:
            self._files = self._memory()
            return
        for name in self._files.list(self.directory):
            path = os.path.join(self.directory, name)
            if name == MARK:
                continue
            if os.path.isdir(path):
                self._files.remove_directory(path)
            else:
                self._files.remove(path)

    def _mark(self) -> None:
        directory = Path(self.directory)
        directory.mkdir(parents=True, exist_ok=True)
        if not any(directory.iterdir()):
            (directory / MARK).touch()

    def _memory(self) -> MemoryFiles:
        return MemoryFiles(self._time)


def _real() -> OsFileSystem:
    return OsFileSystem(open_files_max())
