"""Work beside the requests: done once, repeated, or later in a thread.

The watchdog measures the tasks, under the names that docs/operate/metrics.md has.
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
"""How long a stop waits for tasks."""


class Background:
    """The tasks and timers of one broker; use from the event loop's thread alone."""

    def __init__(self, time: Time, watchdog: Watchdog) -> None:
        self.tasks: set[asyncio.Task[Any]] = set()
        self._time = time
        self._watchdog = watchdog
        self._timers: dict[asyncio.TimerHandle, Callable[[], None]] = {}

    def spawn(
        self, work: Coroutine[Any, Any, None], name: str = "background"
    ) -> asyncio.Task[None]:
        """Runs ``work``, which handles its own errors; ``name`` is what the watchdog calls it."""
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
        """`repeat`, watched under ``name``, until whoever asked for it cancels the task.

        Work by which things expire gives ``idle_ms``: in how many milliseconds at the earliest it
        would find something to do, if nothing happens meanwhile; None for never. Its pauses are
        the broker's time, those of other work real time.
        """
        time = self._time.real if idle_ms is None else self._time
        return self._watchdog.task(name, repeat(time, pause_s, work, failed, idle_ms))

    def after(self, delay_ms: int, work: Callable[[], None]) -> None:
        """Runs ``work`` in a thread after ``delay_ms``, or when the broker stops."""

        def due() -> None:
            del self._timers[timer]
            self.spawn(self._in_thread(work))

        timer = self._time.call_later(delay_ms / 1000, due)
        self._timers[timer] = work

    async def stop(self) -> None:
        """Waits for the tasks, not for ever, and does now what was put off."""
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
    """Pauses and works, again and again; the one such loop of the broker.

    What ``work`` raises is handed to ``failed``, and the repeating goes on. For the pauses see
    `Time.pause`.
    """
    while True:
        await time.pause(pause_s, idle_ms)
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - handed on
            failed(error)
