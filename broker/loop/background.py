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
    """The tasks and timers of one broker; only the event loop's thread may use it."""

    def __init__(self, time: Time, watchdog: Watchdog) -> None:
        self.tasks: set[asyncio.Task[Any]] = set()
        self._time = time
        self._watchdog = watchdog
        self._timers: dict[asyncio.TimerHandle, Callable[[], None]] = {}

    def spawn(
        self, work: Coroutine[Any, Any, None], name: str = "background"
    ) -> asyncio.Task[None]:
        """Runs ``work`` as a task. ``work`` handles its own errors; ``name`` is its name in the
        watchdog."""
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
        """Runs `repeat` as a task until the caller cancels the task; the watchdog measures the task
        under ``name``.

        ``idle_ms`` is for work that lets things expire. ``idle_ms`` returns the number of
        milliseconds for which the work will have nothing to do if no event happens; None means
        forever. Pauses of such work use the broker's time, pauses of other work use real time.
        """
        time = self._time.real if idle_ms is None else self._time
        return self._watchdog.task(name, repeat(time, pause_s, work, failed, idle_ms))

    def after(self, delay_ms: int, work: Callable[[], None]) -> None:
        """Runs ``work`` in a thread after ``delay_ms``; if the broker stops earlier, ``work`` runs
        then."""

        def due() -> None:
            del self._timers[timer]
            self.spawn(self._in_thread(work))

        timer = self._time.call_later(delay_ms / 1000, due)
        self._timers[timer] = work

    async def stop(self) -> None:
        """Waits for the tasks, at most STOP_S_MAX, and runs delayed work immediately."""
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
    """Repeats a pause and a call of ``work``, without end. All repeated work of the broker runs in
    this loop.

    If ``work`` raises an exception, the loop passes the exception to ``failed`` and continues.
    `Time.pause` describes the pauses.
    """
    while True:
        await time.pause(pause_s, idle_ms)
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - passed on
            failed(error)
