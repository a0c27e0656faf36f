"""How long a thread waited for a core: a busy machine's part of a wait, which no program can help.

Linux counts it for each thread, in ns, as the second number of its ``schedstat``.
"""

from __future__ import annotations

import threading
from pathlib import Path


class CoreWaits:
    """Of the thread that makes it, and of the main threads of other processes."""

    def __init__(self, *pids: int) -> None:
        ours = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        self._files = [ours, *(Path(f"/proc/{pid}/task/{pid}/schedstat") for pid in pids)]

    def seconds(self) -> float:
        """Since these threads began, added up."""
        return sum(int(file.read_text().split()[1]) for file in self._files) / 1e9
