"""Locks a folder, either for one writer or for readers whose files must not be deleted.

The locks are file locks of the operating system (flock). A lock ends with the process that holds
it, even after a kill, so a stale lock can't exist. The lock file names the process that holds the
lock. An archive keeps its lock file; a run deletes its lock file at its end.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import weakref
from pathlib import Path

from pipeline import clock
from pipeline.errors import PipelineError


class Held(PipelineError):
    """Another process holds the lock."""


class Lock:
    """A file lock. It is held until it is released or the process ends."""

    def __init__(self, file: Path, descriptor: int) -> None:
        self.file = file
        self._close = weakref.finalize(self, os.close, descriptor)

    @classmethod
    def alone(cls, file: Path) -> Lock:
        """Acquires an exclusive lock. Raises Held, which names the process that holds the lock."""
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if not isinstance(error, BlockingIOError):
                raise PipelineError(
                    f"{file} can't be locked ({error.strerror}): keep the archive on a file system"
                    " that supports locks, such as a local disk"
                ) from None
            raise Held(
                f"{file.parent} is being written by {_holder(file)}: wait until that process"
                " ends, or stop it"
            ) from None
        if not _is(file, descriptor):  # the holder has just deleted the file
            os.close(descriptor)
            return cls.alone(file)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(_ourselves()).encode(), 0)
        return cls(file, descriptor)

    @classmethod
    def shared(cls, file: Path) -> Lock | None:
        """Acquires a shared lock. Returns None if the file does not exist."""
        try:
            descriptor = os.open(file, os.O_RDONLY)
        except OSError:
            return None
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        return cls(file, descriptor)

    @classmethod
    def nobody_shares(cls, file: Path) -> Lock | None:
        """Acquires an exclusive lock if no other process holds a lock on the file; otherwise
        returns None."""
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return cls(file, descriptor)

    def release(self) -> None:
        """Releases the lock. A second call does nothing."""
        self._close()

    def delete(self) -> None:
        """Deletes the lock file and releases the lock, which `alone` must have acquired. A second
        call does nothing."""
        if self._close.alive:
            with contextlib.suppress(OSError):
                self.file.unlink()
            self._close()


def _is(file: Path, descriptor: int) -> bool:
    """Returns True if ``file`` exists and is the file that ``descriptor`` has open."""
    try:
        return os.path.samestat(os.stat(file), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _ourselves() -> dict[str, object]:
    return {
        "process": os.getpid(),
        "host": socket.gethostname(),
        "since": clock.now().isoformat(timespec="seconds"),
    }


def _holder(file: Path) -> str:
    """Returns a text that names the process that holds the lock, according to the lock file."""
    try:
        found = json.loads(file.read_text())
        return f"process {found['process']} on {found['host']} since {found['since']}"
    except (OSError, ValueError, TypeError, KeyError):
        return "another process"
