"""Python's garbage collector beside requests: it runs seldom, and is measured.

A collection holds all threads. The objects of requests are freed by their reference counts; only
errors and the HTTP side leave cycles. With Python's own thresholds everything is searched whenever
the number of objects has grown by a quarter: one request for 20,000 groups held the loop for 30 to
100 ms.
"""

from __future__ import annotations

import gc
from collections.abc import Callable

from broker.loop.watchdog import Watchdog
from broker.time import Time

THRESHOLDS = (2_000, 5, 500)
"""New containers before the young ones are looked through; how many such looks before one at the
middle-aged, some 10,000 (4 ms); how many of these before one at all, some 5 million more."""


def collect_seldom(time: Time, watchdog: Watchdog) -> Callable[[], None]:
    """Has the collector work as above; returns what undoes it."""
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
