"""Work beside the requests: tasks that the watchdog measures, and what a thread does later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from broker.loop.watchdog import Watchdog

logger = structlog.get_logger(__name__)

STOP_S_MAX = 2
"""How long a stop waits for tasks."""


class Background:
    """The tasks and timers of one broker; use from the event loop's thread alone."""

    def __init__(self, watchdog: Watchdog) -> None:
        self.tasks: set[asyncio.Task[Any]] = set()
        self._watchdog = watchdog
        self._timers: dict[asyncio.TimerHandle, Callable[[], None]] = {}

    def spawn(self, work: Coroutine[Any, Any, None], name: str = "background") -> None:
        """Runs ``work``, which handles its own errors; ``name`` is what the watchdog calls it."""
        task = asyncio.get_running_loop().create_task(self._watchdog.watched(name, work))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def after(self, delay_ms: int, work: Callable[[], None]) -> None:
        """Runs ``work`` in a thread after ``delay_ms``, or when the broker stops."""

        def due() -> None:
            del self._timers[timer]
            self.spawn(_in_thread(work))

        timer = asyncio.get_running_loop().call_later(delay_ms / 1000, due)
        self._timers[timer] = work

    async def stop(self) -> None:
        """Waits for the tasks, not for ever, and does now what was put off."""
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=STOP_S_MAX)
        for timer, work in list(self._timers.items()):
            timer.cancel()
            await asyncio.to_thread(work)
        self._timers.clear()


async def _in_thread(work: Callable[[], None]) -> None:
    try:
        await asyncio.to_thread(work)
    except OSError as error:
        logger.warning("work beside failed", error=str(error))
