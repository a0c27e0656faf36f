"""The clocks, waits and threads of the test's process. Other modules of this package use clocks and
threads only through this module.

There are two clocks. The real clock is for Muster's deadlines in the test's process. freezegun and
time-machine stop or move `time.monotonic`, but not the CLOCK_MONOTONIC of `clock_gettime`. The
test's clock is `time.time_ns`, as freezegun and time-machine change it.
"""

from __future__ import annotations

import _thread
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

T = TypeVar("T")

_LOOKS_FOR_S = 0.000_05
"""The time in seconds for which a clock is observed to detect whether it is frozen. A running clock
moves by 50,000 ns in this time."""


def real_s() -> float:
    """Return the time of a clock that no test changes, in seconds since an arbitrary start."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def pause(seconds: float) -> None:
    """Block the thread, even if a test has replaced `time.sleep`."""
    threading.Event().wait(seconds)


class Deadline:
    """A deadline in real time, a number of seconds after its creation."""

    def __init__(self, length_s: float) -> None:
        self.length_s = length_s
        self._began_s = real_s()

    @property
    def left_s(self) -> float:
        """The remaining seconds; 0 after the deadline."""
        return max(0.0, self._began_s + self.length_s - real_s())

    @property
    def is_over(self) -> bool:
        """True if the deadline has passed."""
        return self.left_s == 0.0


@dataclass(frozen=True)
class Look:
    """A reading of the test's clock."""

    wall_ms: int
    stands: bool
    """True if the test's clock was frozen: it did not move while real time passed."""
    at_s: float
    """The time at which the test's clock was read, in seconds of the real clock."""


def look() -> Look:
    """Read the test's clock, even if it is moved or frozen.

    Code in a thread must be started by `in_bare_thread`: freezegun shows the real time to a caller
    if one of the next five frames of its stack is in `threading` or `queue`.
    """
    first, began = time.time_ns(), real_s()
    while True:
        now = time.time_ns()
        at = real_s()
        if now != first or at - began >= _LOOKS_FOR_S:
            return Look(now // 1_000_000, stands=now == first, at_s=at)


def try_to_look() -> Look | None:
    """Call `look` in another thread than the test's. Return None if the test is just changing the
    clock."""
    try:
        return look()
    except Exception:  # noqa: BLE001 - freezegun removes a frozen time in several steps
        return None


def in_bare_thread(run: Callable[[], None]) -> None:
    """Run a function in a thread that was started without the module `threading`: freezegun shows
    the real time to a thread whose stack contains `threading`."""
    _thread.start_new_thread(run, ())


def in_thread(run: Callable[[], None], name: str) -> threading.Thread:
    """Run a function in a thread that does not keep the process alive."""
    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread


class Threads:
    """Threads for blocking calls, separate from the executor of the test's event loop, which may
    have no free thread.

    Waits in these threads do not use the loop's clock, which does not advance while freezegun
    freezes it.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._pool: ThreadPoolExecutor | None = None

    async def run(self, call: Callable[[], T]) -> T:
        """Run a call in one of the threads."""
        import asyncio  # half of the cost of this package's import
        from concurrent.futures import ThreadPoolExecutor

        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._most, thread_name_prefix="musterd")
        return await asyncio.get_running_loop().run_in_executor(self._pool, call)

    def close(self) -> None:
        """Let the threads end after their current calls. The next `run` starts new threads."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False)
