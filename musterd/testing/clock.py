"""The clocks of the test's process, its waits and its threads: no other module here uses them.

There are two clocks. The real one is for our own deadlines: freezegun and time-machine stop or move
`time.monotonic`, but never the CLOCK_MONOTONIC of `clock_gettime`. The test's own clock is
`time.time_ns` as they change it.
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
"""How long a clock is observed to see whether it is frozen; a running one moves by 50,000 ns."""


def real_s() -> float:
    """Seconds of a clock that no test changes, since an arbitrary start."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def pause(seconds: float) -> None:
    """Block the thread; `time.sleep` may have been replaced by the test."""
    threading.Event().wait(seconds)


class Deadline:
    """A length of real time that begins now."""

    def __init__(self, length_s: float) -> None:
        self.length_s = length_s
        self._began_s = real_s()

    @property
    def left_s(self) -> float:
        """The remaining seconds, 0 when it is over."""
        return max(0.0, self._began_s + self.length_s - real_s())

    @property
    def is_over(self) -> bool:
        """Whether it is over."""
        return self.left_s == 0.0


@dataclass(frozen=True)
class Look:
    """A reading of the test's own clock."""

    wall_ms: int
    stands: bool
    """Whether it is frozen: real time passed, and it did not move."""
    at_s: float
    """When it was read, by the real clock."""


def look() -> Look:
    """Read the test's own clock, even if it is moved or frozen.

    freezegun shows the real time to callers that have a frame of `threading` or `queue` among their
    next five, so a caller in a thread uses `in_bare_thread`.
    """
    first, began = time.time_ns(), real_s()
    while True:
        now = time.time_ns()
        at = real_s()
        if now != first or at - began >= _LOOKS_FOR_S:
            return Look(now // 1_000_000, stands=now == first, at_s=at)


def try_to_look() -> Look | None:
    """`look` for a thread other than the test's; None if the test is just changing the clock."""
    try:
        return look()
    except Exception:  # noqa: BLE001 - freezegun removes a frozen time in several steps
        return None


def in_bare_thread(run: Callable[[], None]) -> None:
    """Run a function in a thread without a frame of `threading`, which freezegun would
    recognize.
    """
    _thread.start_new_thread(run, ())


def in_thread(run: Callable[[], None], name: str) -> threading.Thread:
    """Run a function in a thread that does not keep the process alive."""
    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread


class Threads:
    """Separate threads for blocking calls, so that a full executor of the test's loop does not
    matter.

    They do not use the loop's clock for waiting: frozen by freezegun it would never advance.
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
        """Let the threads end after their current calls; the next `run` starts new ones."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False)
