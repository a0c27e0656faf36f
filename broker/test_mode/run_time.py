"""The time of one run of a broker in test mode. `RunTime` records pending timers and waits, and
drops them when the run ends, so that no timer calls into a broker that was killed."""

from __future__ import annotations

import asyncio
import contextvars
from asyncio.subprocess import Process
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from threading import Condition
from typing import TypeVar, TypeVarTuple
from weakref import WeakSet

from broker.time import Threads, Time
from protocol.now import Now

Args = TypeVarTuple("Args")
Result = TypeVar("Result")


class RunTime(Time):
    """The `Time` of one run of a broker in test mode. When the run ends, its timers and sleeps end
    too."""

    def __init__(self, whole: Time) -> None:
        """``whole`` is the time of the process, which all runs of the broker share."""
        self._time = whole
        super().__init__(
            monotonic_s=whole.monotonic_s,
            wall_s=whole.wall_s,
            ticks_ns=whole.ticks_ns,
            cpu_s=whole.cpu_s,
            chance=whole.chance,
        )
        self._real = self if whole.real is whole else RunTime(whole.real)
        self._is_over = False
        self._timers: WeakSet[asyncio.TimerHandle] = WeakSet()
        """The timers of the run. Some of them may already have fired."""
        self._threads: list[Threads] = []
        self._processes: list[Process] = []
        self._held: list[Callable[[], object]] | None = None
        """The callbacks that became due while the run was paused; None while the run is not paused.
        """
        self._runs = asyncio.Event()
        """An event that is set unless the run is paused."""
        self._runs.set()

    def hold(self) -> None:
        """Pauses the run: until `go_on` is called, timers do not fire and waits do not end."""
        self._held = []
        self._runs.clear()
        if self._real is not self:
            self._real.hold()

    def go_on(self) -> None:
        """Continues after `hold`. Timers that became due during the pause fire in order."""
        held, self._held = self._held or [], None
        self._runs.set()
        for each in held:
            each()
        if self._real is not self:
            self._real.go_on()

    def end(self) -> None:
        """Ends this use of the clock by one run of a broker: cancels the run's timers and prevents
        new ones."""
        self._is_over = True
        if self._held is not None:
            self._held.clear()
        for timer in list(self._timers):
            timer.cancel()
        self._timers.clear()
        for each in self._threads:
            each.stop()
        for process in self._processes:
            with suppress(ProcessLookupError):
                process.kill()
        self._time.run_free()
        if self._real is not self:
            self._real.end()

    @property
    def real(self) -> Time:
        """Implements `Time.real`. A wait that uses the returned time ends when the run of the
        broker ends."""
        return self._real

    @property
    def left_out_ms(self) -> int:
        return self._time.left_out_ms

    @left_out_ms.setter
    def left_out_ms(self, value: int) -> None:
        pass  # `whole` counts it

    def now(self) -> Now:
        return self._time.now()

    def loop_lives(self) -> None:
        self._time.loop_lives()

    def run_free(self) -> None:
        self._time.run_free()

    async def sleep(self, seconds: float) -> None:
        await self._time.sleep(seconds)
        await self._runs.wait()

    def call_later(
        self, seconds: float, callback: Callable[[*Args], object], *args: *Args
    ) -> asyncio.TimerHandle:
        fire = partial(contextvars.copy_context().run, callback, *args)
        timer = self._time.call_later(seconds, self._fire, fire)
        if self._is_over:
            timer.cancel()
        else:
            self._timers.add(timer)
        return timer

    async def pause(
        self, pause_s: Callable[[], float], idle_ms: Callable[[], int | None] | None = None
    ) -> None:
        await self._time.pause(pause_s, idle_ms)
        await self._runs.wait()

    def _fire(self, timer: Callable[[], object]) -> None:
        if self._held is None:
            timer()
        else:
            self._held.append(timer)

    def within(self, seconds: float) -> asyncio.Timeout:
        return self._time.within(seconds)

    async def in_thread(self, work: Callable[[*Args], Result], *args: *Args) -> Result:
        return await self._time.in_thread(work, *args)

    def threads(self, count: int, name: str) -> Threads:
        threads = self._time.threads(count, name)
        self._threads.append(threads)
        return threads

    def start_thread(self, work: Callable[[], None], name: str) -> None:
        self._time.start_thread(work, name)

    def wait_in_thread(
        self, condition: Condition, until: Callable[[], bool], seconds: float
    ) -> bool:
        return self._time.wait_in_thread(condition, until, seconds)

    async def start_process(
        self, command: Sequence[str], env: Mapping[str, str], line_bytes_max: int
    ) -> Process:
        process = await self._time.start_process(command, env, line_bytes_max)
        self._processes = [each for each in self._processes if each.returncode is None]
        self._processes.append(process)
        return process

    def fresh_id(self) -> bytes:
        return self._time.fresh_id()
