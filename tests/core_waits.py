"""Measures how long threads waited for a CPU core although they could run. Linux counts this time
for each thread, in ns, as the second number of ``schedstat``."""

from __future__ import annotations

import threading
from pathlib import Path


class CoreWaits:
    """Measures how long threads wait for a CPU core: the thread that creates this object, and the
    main threads of other processes."""

    def __init__(self, *pids: int) -> None:
        ours = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        self._files = [ours, *(Path(f"/proc/{pid}/task/{pid}/schedstat") for pid in pids)]

    def seconds(self) -> float:
        """Returns the time in seconds for which the measured threads have waited for a CPU core
        since they started."""
        return sum(int(file.read_text().split()[1]) for file in self._files) / 1e9
