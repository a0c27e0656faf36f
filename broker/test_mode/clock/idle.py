"""Detects when a broker is idle: all work that a timer started is done.

An event loop does not report whether callbacks are ready. `IdleWatch` therefore counts the work
that it can observe: work in threads, rounds of repeated work such as cleaning, and tasks that
yield. The loop counts as idle if no such work has begun for `IDLE_ITERATIONS` iterations.

`IDLE_ITERATIONS` exceeds the longest chain of callbacks: a transaction expires, the turn ends, its
records and markers are appended, the shard is notified, and the replies are written. The wait for
idleness has a time limit, since real clients may send requests at any time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from broker.time import Result, Threads, Time

IDLE_ITERATIONS = 12
"""The number of iterations of the loop without new work after which the broker counts as idle."""
_ITERATIONS_MAX = 2_000
_WAITS_MAX = 200
"""The maximum number of times in a row that the clock waits for the end of work in threads. Without
this limit it could wait forever, because this work and the clients can start new work."""
WITHIN_S = 30.0
"""The maximum number of seconds that one step of an advance waits for the idle state. A limit is
necessary, since a disk may hang."""
ROUND_WITHIN_S = 2.0
"""The value of `WITHIN_S` while the clock waits only for rounds of repeated work. A longer wait
would be useless: a round of a paused broker does not end before the broker continues."""


class IdleWatch:
    """Observes work in progress. Only the event loop's thread may use this class."""

    def __init__(self, real: Time) -> None:
        self._real = real
        self._begun = 0
        """A counter that increases whenever the event loop has work. The loop is idle while the
        counter stays the same."""
        self._work: set[asyncio.Future[Any]] = set()
        """The work that currently runs in threads, and the current rounds of repeated work."""
        self._rounds: dict[asyncio.Task[Any], asyncio.Future[Any]] = {}

    def stirred(self) -> None:
        """Notes that the loop is not idle, for example because a task yields."""
        self._begun += 1

    def begins(self, work: asyncio.Future[Any]) -> None:
        self._begun += 1
        self._work.add(work)
        work.add_done_callback(self._ended)

    def _ended(self, work: asyncio.Future[Any]) -> None:
        self._begun += 1
        self._work.discard(work)

    def round_begins(self) -> None:
        """Marks the current task as working, until the task calls `round_ends` or ends."""
        task = asyncio.current_task()
        if task is not None and task not in self._rounds:
            done = asyncio.get_running_loop().create_future()
            self._rounds[task] = done
            self.begins(done)
            task.add_done_callback(self._round_over)

    def round_ends(self) -> None:
        """Marks the current task as idle until it calls `round_begins` again."""
        task = asyncio.current_task()
        if task is not None:
            self._round_over(task)

    def _round_over(self, task: asyncio.Task[Any]) -> None:
        done = self._rounds.pop(task, None)
        if done is not None:
            task.remove_done_callback(self._round_over)
            if not done.done():
                done.set_result(None)

    async def settle(self) -> None:
        """Waits until the loop is idle, at most `WITHIN_S`."""
        try:
            async with self._real.within(WITHIN_S):
                await self._settle()
        except TimeoutError:
            self.forget()

    def forget(self) -> None:
        self._work.clear()

    async def _settle(self) -> None:
        waits = calm = 0
        for _ in range(_ITERATIONS_MAX):
            begun = self._begun
            if self._work and waits < _WAITS_MAX:
                waits += 1
                await self._some_work_ended()
            await self._real.sleep(0)
            calm = calm + 1 if self._begun == begun else 0
            if calm >= IDLE_ITERATIONS:
                return

    async def _some_work_ended(self) -> None:
        """Waits until any work in progress ends. After a timeout, stops waiting for rounds of
        repeated work. The timeout is `ROUND_WITHIN_S` if only such rounds are in progress, else
        `WITHIN_S`."""
        rounds = self._work & set(self._rounds.values())
        limit_s = ROUND_WITHIN_S if len(rounds) == len(self._work) else WITHIN_S
        try:
            async with self._real.within(limit_s):
                await asyncio.wait(self._work, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            self._work -= rounds


class NotedThreads(Threads):
    """Threads whose work `IdleWatch` observes."""

    def __init__(self, count: int, name: str, idle_watch: IdleWatch) -> None:
        super().__init__(count, name)
        self._idle_watch = idle_watch

    def run(self, work: Callable[[], Result]) -> asyncio.Future[Result]:
        future = super().run(work)
        self._idle_watch.begins(future)
        return future
