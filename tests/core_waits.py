"""The time for which runnable threads waited for a CPU core. Linux counts this time for each
thread, in ns, as the second number of ``schedstat``."""

from __future__ import annotations

import threading
from pathlib import Path


class CoreWaits:
    """Measures the waits for a CPU core of the creating thread, and of the main threads of other
    processes."""

    def __init__(self, *pids: int) -> None:
        ours = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        self._files = [ours, *(Path(f"/proc/{pid}/task/{pid}/schedstat") for pid in pids)]

    def seconds(self) -> float:
        """Returns the waits of these threads in seconds, summed since the threads started."""
        return sum(int(file.read_text().split()[1]) for file in self._files) / 1e9
