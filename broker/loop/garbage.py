"""Makes Python's garbage collector run rarely, and measures its runs.

A collection stops all threads, but the broker hardly needs one. Reference counts free the objects
of requests; only errors and the HTTP server leave cycles. With Python's default thresholds, the
collector searches all objects each time their number has grown by a quarter. During a request for
20,000 groups, this blocked the event loop for 30 to 100 ms.
"""

from __future__ import annotations

import gc
from collections.abc import Callable

from broker.loop.watchdog import Watchdog
from broker.time import Time

THRESHOLDS = (2_000, 5, 500)
"""The three thresholds of `gc.set_threshold`.

A collection of the young generation runs after 2,000 new containers. Every fifth of these
collections also collects the middle generation: about 10,000 objects, 4 ms. A full collection runs
after 500 collections of the middle generation, or about 5 million new objects.
"""


def collect_seldom(time: Time, watchdog: Watchdog) -> Callable[[], None]:
    """Sets the thresholds of the garbage collector, and starts to report collections to the
    watchdog. Returns a function that reverts both changes."""
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
