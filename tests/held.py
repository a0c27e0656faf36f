"""The open files, threads and memory of a process, to find leaks."""

from __future__ import annotations

import os
from pathlib import Path

EXECUTOR_THREADS = 32
"""The maximum number of threads of an executor. The number of started threads depends on timing."""
LEAK_KB = 5 * 1024


class Held:
    """The files, threads and memory of a process at one time."""

    def __init__(self, pid: int) -> None:
        status = Path(f"/proc/{pid}/status").read_text()
        self.rss_kb = int(status.partition("VmRSS:")[2].split()[0])
        self.threads = int(status.partition("Threads:")[2].split()[0])
        self.files = len(os.listdir(f"/proc/{pid}/fd"))

    def check_not_above(self, before: Held) -> None:
        """Raises AssertionError if the process holds more files, threads or memory than in
        ``before``, apart from a tolerance."""
        assert self.files <= before.files + 1
        assert self.threads <= before.threads + EXECUTOR_THREADS
        assert self.rss_kb <= before.rss_kb + LEAK_KB
