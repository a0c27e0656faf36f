"""Makes Python's garbage collector run rarely, and measures its runs.

A collection stops all threads. Reference counts free the objects of requests; only errors and the
HTTP server leave cycles. With Python's default thresholds the collector searches all objects
whenever their number has grown by a quarter: during a request for 20,000 groups, this stopped the
loop for 30 to 100 ms.
"""

from __future__ import annotations

import gc
from collections.abc import Callable

from broker.loop.watchdog import Watchdog
from broker.time import Time

THRESHOLDS = (2_000, 5, 500)
"""The collector's three thresholds: the number of new containers before a collection of the young
generation; the number of young collections before one of the middle generation (about 10,000
objects, 4 ms); the number of middle collections before a full one (about 5 million more objects).
"""


def collect_seldom(time: Time, watchdog: Watchdog) -> Callable[[], None]:
    """Sets the thresholds and starts to measure collections; returns a function that restores the
    old thresholds and stops the measurement."""
    before = gc.get_threshold()
    began_ns = 0

    def measured(phase: str, _info: dict[str, int]) -> None:
        nonlocal began_ns
        if phase == "start":
            began_ns = time.ticks_ns()
        else:
            watchdog.ended("garbage collection", began_ns)

    def undo() -> None:
        gc.callbacks.remove(measured)
        gc.set_threshold(*before)

    gc.set_threshold(*THRESHOLDS)
    gc.callbacks.append(measured)
    return undo
