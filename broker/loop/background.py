"""Background work of a broker: tasks, repeated tasks, and delayed work in threads.

The watchdog measures the tasks under the names that docs/operate/metrics.md lists.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, NoReturn

import structlog

from broker.loop.watchdog import Watchdog
from broker.time import Time

logger = structlog.get_logger(__name__)

STOP_S_MAX = 2
"""The number of seconds for which `Background.stop` waits for tasks."""


class Background:
    """The tasks and timers of one broker. Only the event loop's thread may use this class."""

    def __init__(self, time: Time, watchdog: Watchdog) -> None:
        self.tasks: set[asyncio.Task[Any]] = set()
        self._time = time
        self._watchdog = watchdog
        self._timers: dict[asyncio.TimerHandle, Callable[[], None]] = {}

    def spawn(
        self, work: Coroutine[Any, Any, None], name: str = "background"
    ) -> asyncio.Task[None]:
        """Runs ``work`` as a task. ``work`` must handle its own errors. The watchdog reports it
        under ``name``."""
        task = self._watchdog.task(name, work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def every(
        self,
        name: str,
        pause_s: Callable[[], float],
        work: Callable[[], Awaitable[object]],
        failed: Callable[[Exception], None],
        idle_ms: Callable[[], int | None] | None = None,
    ) -> asyncio.Task[None]:
        """Starts a task that runs `repeat` until the caller cancels the task. The watchdog reports
        the task under ``name``.

        Work that expires groups, offsets or other state passes ``idle_ms``: a function that returns
        the number of milliseconds for which the work has nothing to do, or None if it has nothing
        to do until an event occurs. The pauses of such work use the broker's time; the pauses of
        other work use real time.
        """
        time = self._time.real if idle_ms is None else self._time
        return self._watchdog.task(name, repeat(time, pause_s, work, failed, idle_ms))

    def after(self, delay_ms: int, work: Callable[[], None]) -> None:
        """Runs ``work`` in a thread after ``delay_ms``. If the broker stops earlier, ``work`` runs
        during the stop."""

        def due() -> None:
            del self._timers[timer]
            self.spawn(self._in_thread(work))

        timer = self._time.call_later(delay_ms / 1000, due)
        self._timers[timer] = work

    async def stop(self) -> None:
        """Waits for the tasks, for at most STOP_S_MAX seconds. Then runs all delayed work at
        once."""
        if self.tasks:
            with suppress(TimeoutError):
                async with self._time.real.within(STOP_S_MAX):
                    await asyncio.wait(self.tasks)
        for timer, work in list(self._timers.items()):
            timer.cancel()
            await self._time.in_thread(work)
        self._timers.clear()

    async def _in_thread(self, work: Callable[[], None]) -> None:
        try:
            await self._time.in_thread(work)
        except OSError as error:
            logger.warning("background work failed", error=str(error))


async def repeat(
    time: Time,
    pause_s: Callable[[], float],
    work: Callable[[], Awaitable[object]],
    failed: Callable[[Exception], None],
    idle_ms: Callable[[], int | None] | None = None,
) -> NoReturn:
    """Pauses and calls ``work``, alternately, without end. All repeated work of the broker runs in
    this loop.

    If ``work`` raises an exception, the loop passes it to ``failed`` and continues. ``pause_s`` and
    ``idle_ms`` are the arguments of `Time.pause`.
    """
    while True:
        await time.pause(pause_s, idle_ms)
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - passed on
            failed(error)
