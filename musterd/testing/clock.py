"""The clocks of the test's process, its waiting and its threads: the only place that has them.

There are two clocks. The real one is for our own deadlines: freezegun and time-machine stop or move
`time.monotonic`, and never what `clock_gettime` says of CLOCK_MONOTONIC. The test's own clock is
`time.time_ns` as they leave it.
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
"""How long a clock is watched to see whether it stands; one that runs moves by 50,000 ns."""


def real_s() -> float:
    """Seconds of a clock that nobody moves, since some start."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def pause(seconds: float) -> None:
    """Wait; `time.sleep` may be the test's own by now."""
    threading.Event().wait(seconds)


class Deadline:
    """A length of real time that begins now."""

    def __init__(self, length_s: float) -> None:
        self.length_s = length_s
        self._began_s = real_s()

    @property
    def left_s(self) -> float:
        """What is left of it, 0 when it is over."""
        return max(0.0, self._began_s + self.length_s - real_s())

    @property
    def is_over(self) -> bool:
        """Whether nothing of it is left."""
        return self.left_s == 0.0


@dataclass(frozen=True)
class Look:
    """What the test's own clock showed."""

    wall_ms: int
    stands: bool
    """Whether it is frozen: real time passed, and it did not move."""
    at_s: float
    """When it was looked at, by the real clock."""


def look() -> Look:
    """Look at the test's own clock, whoever moves it.

    freezegun shows the real time to callers that have a frame of `threading` or `queue` among
    their next five: whoever calls this from a thread uses `in_bare_thread`.
    """
    first, began = time.time_ns(), real_s()
    while True:
        now = time.time_ns()
        at = real_s()
        if now != first or at - began >= _LOOKS_FOR_S:
            return Look(now // 1_000_000, stands=now == first, at_s=at)


def try_to_look() -> Look | None:
    """The same from beside the test's thread: what it moves may just be in pieces."""
    try:
        return look()
    except Exception:  # noqa: BLE001 - freezegun takes a frozen time away in several steps
        return None


def in_bare_thread(run: Callable[[], None]) -> None:
    """Run it in a thread without a frame of `threading`, by which freezegun knows it."""
    _thread.start_new_thread(run, ())


def in_thread(run: Callable[[], None], name: str) -> threading.Thread:
    """Run it in a thread that does not keep the process alive."""
    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread


class Threads:
    """Threads of its own for what blocks, so that a full executor of the test's loop is no matter.

    Nothing waits by the loop's clock here: frozen by freezegun it would never come.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._pool: ThreadPoolExecutor | None = None

    async def run(self, call: Callable[[], T]) -> T:
        """Run it in one of the threads."""
        import asyncio  # half of what this package's import would cost
        from concurrent.futures import ThreadPoolExecutor

        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._most, thread_name_prefix="musterd")
        return await asyncio.get_running_loop().run_in_executor(self._pool, call)

    def close(self) -> None:
        """Let the threads end when what they run is done; the next `run` has new ones."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False)
