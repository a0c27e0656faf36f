"""An event loop in virtual time: asyncio's tasks, futures and timers without a real clock.

As in uvloop, an iteration handles due timers, then ready callbacks, then a poll of the sockets. An
idle loop advances its time to the next event, which is a timer or an entry of the agenda
(agenda.py). Jobs for threads run in the thread of the loop at a random later time, and their
results arrive later still.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from heapq import heappop
from random import Random
from typing import Any

from tests.simulation.whole.agenda import MS, Agenda, S
from tests.simulation.whole.network import ListeningSocket, Network

ITERATION_NS = 2_000
"""The minimum duration of an iteration in ns, so that time passes in a busy loop."""
JOB_NS = (20_000, 60_000, 200_000, 1 * MS, 4 * MS)
"""Possible durations in ns of a job that runs in a thread. The time that a slow disk adds is not
included."""
COMES_BACK_NS = (5_000, 50_000, 500_000)
"""Possible delays in ns from the end of a job to the arrival of its result in the loop."""


class VirtualLoop(asyncio.BaseEventLoop):
    """The event loop of one process. It runs until `leave` is called or the process has ended."""

    def __init__(self, agenda: Agenda, network: Network, chance: Random) -> None:
        super().__init__()
        self.agenda = agenda
        self.network = network
        self.chance = chance
        self.now_ns = agenda.now_ns
        """The virtual time of this process in ns. While the process computes, it is later than
        ``agenda.now_ns``."""
        self.errors: list[dict[str, Any]] = []
        """The exceptions that no code has handled, as asyncio reports them."""
        self.iterations = 0
        self.disk_ns: Callable[[], int] = lambda: 0
        """Returns the extra time in ns that each disk operation currently takes."""
        self.after_iteration: Callable[[], None] = lambda: None
        self._left = False
        self.set_exception_handler(lambda _, context: self.errors.append(context))

    # -- methods that asyncio calls

    def time(self) -> float:
        return self.now_ns / S

    def _run_once(self) -> None:
        self.iterations += 1
        self.now_ns += ITERATION_NS
        self.agenda.run_until(self.now_ns)  # events that happened while the process computed
        self._run_timers()
        self._run_ready()
        if not self._left:
            self._look_at_sockets()
        self.after_iteration()
        if self._left:
            self._left, self._stopping = False, True

    def _run_timers(self) -> None:
        scheduled, now_s = self._scheduled, self.now_ns / S
        while scheduled and (scheduled[0]._cancelled or scheduled[0]._when <= now_s):
            handle = heappop(scheduled)
            handle._scheduled = False
            if handle._cancelled:
                self._timer_cancelled_count -= 1
            else:
                handle._run()
            if self._left:
                return

    def _run_ready(self) -> None:
        ready = self._ready
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()
            if self._left:
                return

    def _look_at_sockets(self) -> None:
        agenda, network = self.agenda, self.network
        agenda.run_until(self.now_ns)
        if not self._ready and not self._stopping:
            until_ns = self._next_timer_ns()
            while not network.news and not self._left and not self._ready:
                next_ns = agenda.next_ns
                if next_ns is None and until_ns is None:
                    raise AssertionError("nothing would ever happen again")
                if next_ns is None or (until_ns is not None and until_ns < next_ns):
                    agenda.run_until(until_ns)
                    break
                agenda.run_until(next_ns)
            self.now_ns = max(self.now_ns, agenda.now_ns)
        if network.news and not self._left:
            network.deliver()

    def _next_timer_ns(self) -> int | None:
        scheduled = self._scheduled
        while scheduled and scheduled[0]._cancelled:
            self._timer_cancelled_count -= 1
            heappop(scheduled)._scheduled = False
        return max(self.now_ns, int(scheduled[0]._when * S) + 1) if scheduled else None

    def _write_to_self(self) -> None:
        """Does nothing, because no other thread calls `call_soon_threadsafe`."""

    def run_in_executor(
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        future = self.create_future()
        job_ns = self.chance.choice(JOB_NS) + self.disk_ns()
        self.call_at((self.now_ns + job_ns) / S, self._do, future, func, args)
        return future

    def _do(self, future: asyncio.Future[Any], func: Callable[..., Any], args: Any) -> None:
        """Executes a job that was submitted to a thread. The virtual time does not advance. The
        result arrives in the loop later."""
        error: BaseException | None = None
        result: Any = None
        if future.cancelled():
            return
        try:
            result = func(*args)
        except Exception as failure:  # noqa: BLE001 - it is for who awaits it
            error = failure
        self.call_at(
            (self.now_ns + self.chance.choice(COMES_BACK_NS)) / S, self._tell, future, error, result
        )

    def _tell(self, future: asyncio.Future[Any], error: BaseException | None, result: Any) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    async def create_server(
        self, protocol_factory: Any, *, sock: ListeningSocket, backlog: int = 100
    ) -> ListeningSocket:
        self.network.accept_on(sock, protocol_factory, self)
        return sock

    # -- actions of the world

    def stand_still(self, ns: int) -> None:
        """Suspends the process for ``ns``. The time of the simulation continues."""
        self.now_ns = max(self.now_ns, self.agenda.now_ns) + ns

    def leave(self) -> None:
        """Makes `run_forever` return at once, even if work remains."""
        self._left = True
