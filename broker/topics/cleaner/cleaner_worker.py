"""Runs a cleaner process and communicates with it.

The first job starts the process. The broker kills the process after a minute without a job, after a
failure, or after `SILENCE_S` without a report; the next job starts a new process. When the broker
exits, the stdin of the process closes, and the process exits too.
"""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import log.cleaner.cleaner_process
from broker.time import Time
from log.cleaner.clean_job import (
    CleanDone,
    CleanedGroup,
    CleanFailed,
    CleanJob,
    CleanProgress,
    decode_answer,
    encode_job,
    encode_producers,
)

T = TypeVar("T")

IDLE_S = 60.0
SILENCE_S = 300.0
"""The number of seconds without a report after which the cleaner process counts as stuck. The
cleaner process reports every second, except during an fsync, which may take minutes."""
_LINE_BYTES_MAX = 64 * 1024 * 1024


class CleaningFailed(Exception):
    """Raised if a cleaning has failed. The exception's text is the reason."""


class CleanerWorker:
    """A cleaner process, which cleans one partition at a time."""

    def __init__(self, time: Time) -> None:
        self._time = time
        self._process: Process | None = None
        self._killed: Process | None = None
        self._idle: asyncio.TimerHandle | None = None
        self.busy = False
        self.silence_s = SILENCE_S

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    async def clean(
        self,
        job: CleanJob,
        on_group: Callable[[CleanedGroup], Awaitable[None]],
        producers: Iterable[Mapping[int, tuple[int, int]]] = (),
    ) -> CleanDone:
        """Runs ``job`` in the cleaner process. For each cleaned group of segments, awaits
        ``on_group`` while the process cleans the next group.

        The process gets ``producers`` in several messages, one per mapping, so that the event loop
        can run other work between two messages. Raises CleaningFailed and the exceptions of
        ``on_group``. If a failure occurs and the process has not reported it, this method kills the
        process, and the next job starts a new process.
        """
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        self.busy = True
        try:
            return await self._converse(job, on_group, producers)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CleaningFailed(f"the cleaner process failed: {error}") from error
        finally:
            self.busy = False
            if self._process is not None:
                self._idle = self._time.call_later(IDLE_S, self._end)

    async def _converse(
        self,
        job: CleanJob,
        on_group: Callable[[CleanedGroup], Awaitable[None]],
        producers: Iterable[Mapping[int, tuple[int, int]]],
    ) -> CleanDone:
        process = await self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        whole = False
        try:
            process.stdin.write(encode_job(job))
            for some in filter(None, producers):
                process.stdin.write(encode_producers(some))
                await process.stdin.drain()
                await self._time.sleep(0)
            process.stdin.write(encode_producers({}))
            await process.stdin.drain()
            while line := await self._soon(process.stdout.readline()):
                answer = decode_answer(line)
                if isinstance(answer, CleanProgress):
                    continue
                if isinstance(answer, CleanedGroup):
                    await on_group(answer)
                    continue
                whole = True
                if isinstance(answer, CleanFailed):
                    raise CleaningFailed(answer.reason)
                return answer
            status = await self._soon(process.wait())
            raise CleaningFailed(f"the cleaner process exited with status {status}")
        finally:
            if not whole:
                self._end()

    async def _soon(self, what: Awaitable[T]) -> T:
        try:
            async with self._time.within(self.silence_s):
                return await what
        except TimeoutError:
            raise CleaningFailed(
                f"the cleaner process did not report for {self.silence_s:g} s and was stopped"
            ) from None

    async def _started(self) -> Process:
        process = self._process
        if process is None or process.returncode is not None:
            rooms = str(Path(log.cleaner.cleaner_process.__file__).parents[2])
            inherited = os.environ.get("PYTHONPATH")
            path = os.pathsep.join([rooms, inherited] if inherited else [rooms])
            process = self._process = await self._time.start_process(
                [sys.executable, "-P", "-m", "log.cleaner.cleaner_process"],
                {**os.environ, "PYTHONPATH": path},
                _LINE_BYTES_MAX,
            )
        return process

    def _end(self) -> None:
        process, self._process = self._process, None
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if process is not None and process.returncode is None:
            process.kill()
            self._killed = process

    async def stop(self) -> None:
        self._end()
        if self._killed is not None:
            await self._killed.wait()
