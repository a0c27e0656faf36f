"""Simulated faults of a disk: a full disk, and failing fsyncs. They apply to files in memory and to
real files, and remain active across runs of the broker."""

from __future__ import annotations

import errno
import os
from functools import partial
from threading import Lock

from broker.test_mode.faults import Fault

ENDLESS = 1 << 62


class DiskFault(Fault):
    """A fault of the disk. It applies to calls in any thread."""

    def __init__(self, kind: str, code: int, times: int | None = None) -> None:
        super().__init__(kind, {"times": times})
        self.code = code
        """The errno with which file operations fail."""
        self.left = ENDLESS if times is None else times
        """The number of file operations that will still fail."""


class DiskFaults:
    """The faults of one disk. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._full: list[DiskFault] = []
        self._fsync: list[DiskFault] = []

    def disk_full(self) -> DiskFault:
        """Makes the disk full: writes that enlarge a file fail, and calls that create a file, a
        link or a directory fail. Reads and removals succeed."""
        return self._begin(self._full, DiskFault("disk_full", errno.ENOSPC))

    def fail_fsync(self, times: int | None = None) -> DiskFault:
        """Makes the next ``times`` fsyncs of files and directories fail. None means all later
        fsyncs."""
        return self._begin(self._fsync, DiskFault("fail_fsync", errno.EIO, times))

    def end_all(self) -> None:
        for fault in [*self._full, *self._fsync]:
            fault.finish()

    @property
    def is_full(self) -> bool:
        return bool(self._full)

    # -- the calls of `FaultyFiles`

    def taking_more(self, path: str) -> None:
        """Called before a file grows or a name is added. Raises OSError if the disk is full."""
        self._meet(self._full, path)

    def syncing(self, path: str) -> None:
        """Called before an fsync of a file or directory. Raises OSError if an active fault makes
        the fsync fail."""
        self._meet(self._fsync, path)

    def _begin(self, kind: list[DiskFault], fault: DiskFault) -> DiskFault:
        fault.on_end(partial(self._end, kind, fault))
        with self._lock:
            kind.append(fault)
        return fault

    def _end(self, kind: list[DiskFault], fault: DiskFault) -> None:
        with self._lock:
            kind.remove(fault)

    def _meet(self, kind: list[DiskFault], path: str) -> None:
        if not kind:
            return
        with self._lock:
            fault = next((each for each in kind if each.left > 0), None)
            if fault is None:
                return
            fault.left -= 1
            fault.hits += 1
        raise OSError(fault.code, os.strerror(fault.code), path)
