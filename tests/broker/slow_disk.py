"""A disk whose fsyncs fail or block until the test releases them."""

from __future__ import annotations

import errno
import threading

from log.files.filesystem import OsFileSystem
from log.files.os_file import OsFile


class SlowFile(OsFile):
    """A file whose fsyncs fail or block until the test releases them."""

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
    """A file system on which the segments of one topic are `SlowFile` objects."""

    def __init__(self, topic: str) -> None:
        super().__init__()
        self.topic = topic
        self.kind = type("Slow", (SlowFile,), {"may_go": threading.Event()})
        self.kind.may_go.set()

    def open(self, path: str, create: bool = False) -> OsFile:
        slow = f"/{self.topic}-" in path and path.endswith(".log")
        return self.kind(path, create) if slow else OsFile(path, create)
