"""A disk whose fsyncs wait for the test or fail."""

from __future__ import annotations

import errno
import threading

from log.files.filesystem import OsFileSystem
from log.files.os_file import OsFile


class SlowFile(OsFile):
    """A file whose fsyncs wait for the test or fail."""

    may_go: threading.Event
    fails = False
    syncs = 0

    def fsync(self) -> None:
        self.may_go.wait(20)
        if self.fails:
            raise OSError(errno.EIO, "the disk is gone", self.path)
        type(self).syncs += 1
        super().fsync()


class SlowFiles(OsFileSystem):
    """A file system on which the segments of one topic are slow files."""

    def __init__(self, topic: str) -> None:
        super().__init__()
        self.topic = topic
        self.kind = type("Slow", (SlowFile,), {"may_go": threading.Event()})
        self.kind.may_go.set()

    def open(self, path: str, create: bool = False) -> OsFile:
        slow = f"/{self.topic}-" in path and path.endswith(".log")
        return self.kind(path, create) if slow else OsFile(path, create)
