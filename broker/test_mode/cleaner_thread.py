"""Cleans logs in a thread of the broker's process, because a separate process can't see files in
memory or faults of the disk. `CleanerThread` implements `broker.topics.cleaner.cleaning.Cleaner`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from threading import Condition

from broker.time import Time
from broker.topics.cleaner.cleaner_worker import CleaningFailed
from log.cleaner.clean_job import CleanDone, CleanedGroup, CleanJob
from log.cleaner.cleaner import clean
from log.cleaner.cleaner_process import Throttle
from log.files.filesystem import FileSystem

NS = 1_000_000_000


class CleanerThread:
    """A thread that cleans one partition at a time."""

    def __init__(self, time: Time, fs: FileSystem) -> None:
        self._time = time
        self._fs = fs
        self._threads = time.threads(1, "cleaner")
        self._work: _Work | None = None
        self._result: asyncio.Future[CleanDone] | None = None
        self.busy = False

    async def clean(
        self,
        job: CleanJob,
        on_group: Callable[[CleanedGroup], Awaitable[None]],
        producers: Iterable[Mapping[int, tuple[int, int]]] = (),
    ) -> CleanDone:
        self.busy = True
        try:
            for some in filter(None, producers):
                job.producers.update(some)
                await self._time.sleep(0)
            return await self._converse(job, on_group)
        finally:
            self.busy = False

    async def _converse(
        self, job: CleanJob, on_group: Callable[[CleanedGroup], Awaitable[None]]
    ) -> CleanDone:
        loop = asyncio.get_running_loop()
        groups: asyncio.Queue[CleanedGroup | None] = asyncio.Queue()

        def emit(group: CleanedGroup) -> None:
            loop.call_soon_threadsafe(groups.put_nowait, group)

        work = self._work = _Work(self._time.real, self._fs, job, emit)
        result = self._result = self._threads.run(work.run)

        def ended(result: asyncio.Future[CleanDone]) -> None:
            if not result.cancelled():
                result.exception()  # marks the exception as retrieved: the caller may be gone
            groups.put_nowait(None)

        result.add_done_callback(ended)
        try:
            while (group := await groups.get()) is not None:
                await on_group(group)
        finally:
            work.stop()
        try:
            return result.result()
        except Exception as error:  # reported as a cleaner process would
            raise CleaningFailed(f"{type(error).__name__}: {error}") from error

    async def stop(self) -> None:
        if self._work is not None and self._result is not None:
            self._work.stop()
            await asyncio.wait((self._result,))
        self._threads.stop()


class Stopped(Exception):
    """Raised if the cleaning was cancelled."""


class _Work:
    """One cleaning job, which runs in a thread."""

    def __init__(
        self,
        time: Time,
        fs: FileSystem,
        job: CleanJob,
        emit: Callable[[CleanedGroup], None],
    ) -> None:
        self._time = time
        self._fs = fs
        self._job = job
        self._emit = emit
        self._stopped = False
        self._stops = Condition()

    def stop(self) -> None:
        """Makes the job end before its next slice. Called in another thread than the job's
        thread."""
        with self._stops:
            self._stopped = True
            self._stops.notify_all()

    def run(self) -> CleanDone:
        began_s = self._clock_s()
        throttle = Throttle(self._job.bytes_per_second, lambda _: None, self._clock_s, self._sleep)

        def pace(count: int) -> None:
            if self._stopped:
                raise Stopped("cleaning was cancelled")
            throttle(count)

        done = clean(self._fs, self._job, self._emit, pace)
        done.milliseconds = int((self._clock_s() - began_s) * 1000)
        return done

    def _clock_s(self) -> float:
        return self._time.ticks_ns() / NS

    def _sleep(self, seconds: float) -> None:
        with self._stops:
            self._time.wait_in_thread(self._stops, lambda: self._stopped, seconds)
        if self._stopped:
            raise Stopped("cleaning was cancelled")
