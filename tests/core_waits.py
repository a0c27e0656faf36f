"""The time that runnable threads waited for a CPU core on a busy machine.

Linux counts this time for each thread, in ns, as the second number of ``schedstat``.
"""

from __future__ import annotations

import threading
from pathlib import Path


class CoreWaits:
    """The waiting times of the thread that creates the object, and of the main threads of other
    processes."""

    def __init__(self, *pids: int) -> None:
        ours = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        self._files = [ours, *(Path(f"/proc/{pid}/task/{pid}/schedstat") for pid in pids)]

    def seconds(self) -> float:
        """Returns the total waiting time of these threads in seconds since the threads started."""
        return sum(int(file.read_text().split()[1]) for file in self._files) / 1e9
