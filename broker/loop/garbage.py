"""Settings and measurement of Python's garbage collector, which must run rarely.

A collection stops all threads. Reference counts free the objects of requests; only errors and the
HTTP side leave cycles. With Python's default thresholds all objects are searched whenever their
number has grown by a quarter: a request for 20,000 groups held the loop for 30 to 100 ms.
"""

from __future__ import annotations

import gc
from collections.abc import Callable

from broker.loop.watchdog import Watchdog
from broker.time import Time

THRESHOLDS = (2_000, 5, 500)
"""Three thresholds: new containers before a collection of the young generation; young collections
before one of the middle generation, about 10,000 objects (4 ms); middle collections before a full
one, about 5 million more objects."""


def collect_seldom(time: Time, watchdog: Watchdog) -> Callable[[], None]:
    """Sets the thresholds and starts measuring collections; returns a function that undoes both."""
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
