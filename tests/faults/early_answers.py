"""A Muster with a planted fault: it replies to a commit shortly before it writes the commit. This
module replaces `cli.main`. The tests with `kill -9` must detect the lost commits."""

from __future__ import annotations

import queue
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from cli.main import main
from log.files.os_file import OsFile

LATE_S = 0.005
write_now = OsFile.write
waiting: queue.Queue = queue.Queue()


def write_late() -> None:
    while True:
        due, file, position, data = waiting.get()
        time.sleep(max(0.0, due - time.monotonic()))
        write_now(file, position, data)


def write(self, position, data):
    if "__consumer_offsets" in self.path and self.path.endswith(".log"):
        waiting.put((time.monotonic() + LATE_S, self, position, bytes(data)))
    else:
        write_now(self, position, data)


OsFile.write = write
threading.Thread(target=write_late, daemon=True).start()
main()
