"""Samples the broker and the lag of its groups, and keeps the samples of ten minutes for the charts
of the web page.

A sample is taken every five seconds. With very many groups samples are less frequent, so that they
use at most half a per cent of one core. Only GROUPS_KEPT groups have a chart.
"""

from __future__ import annotations

import asyncio
import os
from array import array

from broker.cores.groups.runtime import GroupRuntime
from broker.loop.background import Background
from broker.loop.internal_errors import InternalErrors
from broker.loop.slices import Slicer
from broker.metrics.lag import Lags, readable
from broker.net.server import Server
from broker.time import Time

EVERY_S = 5.0
SAMPLES_KEPT = 120
GROUPS_KEPT = 5000
_IDLE_PER_BUSY = 200
"""The minimum pause after a sample, as a multiple of the time that the sample took."""
_LOOK_S = 0.25
"""The time in seconds between two measurements of the event loop's delay."""


class Ring:
    """The last SAMPLES_KEPT samples of one number, oldest first."""

    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values = array("d")

    def add(self, value: float) -> None:
        """Adds a sample. If there are already SAMPLES_KEPT samples, removes the oldest."""
        if len(self.values) == SAMPLES_KEPT:
            del self.values[0]
        self.values.append(value)


class Trends:
    """Takes samples of one broker, from `start` until `stop`."""

    def __init__(
        self,
        groups: GroupRuntime,
        lags: Lags,
        server: Server,
        slicer: Slicer,
        internal_errors: InternalErrors,
        time: Time,
        background: Background,
    ) -> None:
        self._groups = groups
        self._lags = lags
        self._server = server
        self._slicer = slicer
        self._internal_errors = internal_errors
        self._time = time
        self._background = background
        self.taken = 0
        """The number of samples that were taken since `start`."""
        self.lags: dict[str, Ring] = {}
        """The samples of each group's lag in records, by group id."""
        self.members = 0
        """The number of members of all groups at the last sample."""
        self.lag = 0
        """The total lag in records of all groups at the last sample."""
        self.rates: dict[str, Ring] = {
            name: Ring()
            for name in ("requests", "commits", "cpu", "memory_bytes", "connections", "delay_ms")
        }
        """The samples of the broker's numbers, by name.

        "requests" and "commits" are per second, "cpu" is in cores, and "delay_ms" is the largest
        delay of the event loop since the previous sample.
        """
        self._last: tuple[float, int, int, float] | None = None
        self._pause_s = 0.0
        """The length in seconds of the pause before the next sample; 0 before the first."""
        self._looked_s = 0.0
        """The monotonic time in seconds of the last measurement of the event loop's delay."""
        self._late_s = 0.0
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        every = self._background.every
        self._looked_s = self._time.monotonic_s()
        self._tasks = [
            every("trends", lambda: self._pause_s, self._sample_again, self._failed),
            every("trends", lambda: _LOOK_S, self._note_delay, self._failed),
        ]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _sample_again(self) -> None:
        self._pause_s = EVERY_S
        self._pause_s = max(EVERY_S, _IDLE_PER_BUSY * await self.sample())

    async def _note_delay(self) -> None:
        now_s = self._time.monotonic_s()
        self._late_s = max(self._late_s, now_s - self._looked_s - _LOOK_S)
        self._looked_s = now_s

    def _failed(self, error: Exception) -> None:
        self._internal_errors.caught("observer", error)

    async def sample(self) -> float:
        """Takes one sample of the trends of the broker and of each group, in slices. Returns the
        total time in seconds for which these slices blocked the event loop."""
        self._sample_broker()
        slices = self._slicer.work("trends")
        members = total = 0
        seen: set[str] = set()
        for hosted in readable(self._groups):
            for group in list(hosted.core.view.groups.values()):
                lag = self._lags.records_of(hosted, group) or 0
                members += len(group.members)
                total += lag
                ring = self.lags.get(group.group_id)
                if ring is None and len(self.lags) < GROUPS_KEPT:
                    ring = self.lags[group.group_id] = Ring()
                if ring is not None:
                    ring.add(lag)
                    seen.add(group.group_id)
                if slices.over:
                    await slices.pause()
        for group_id in [each for each in self.lags if each not in seen]:
            del self.lags[group_id]
        self.members, self.lag = members, total
        self.taken += 1
        return slices.end()

    def _sample_broker(self) -> None:
        now_s = self._time.monotonic_s()
        requests, commits, cpu_s = self._server.answered(), self._groups.counted, self._time.cpu_s()
        if self._last is not None:
            then_s, requests_then, commits_then, cpu_then_s = self._last
            passed_s = max(now_s - then_s, 0.001)
            self.rates["requests"].add(round((requests - requests_then) / passed_s, 1))
            self.rates["commits"].add(round((commits - commits_then) / passed_s, 1))
            self.rates["cpu"].add(round((cpu_s - cpu_then_s) / passed_s, 3))
        self._last = (now_s, requests, commits, cpu_s)
        self.rates["memory_bytes"].add(memory_bytes())
        self.rates["connections"].add(len(self._server.connections))
        self.rates["delay_ms"].add(round(self._late_s * 1000, 1))
        self._late_s = 0.0

    def of_group(self, group_id: str) -> list[int]:
        """Returns the samples of a group's lag in records, oldest first; an empty list if the group
        has none."""
        ring = self.lags.get(group_id)
        return [] if ring is None else [int(value) for value in ring.values]


def memory_bytes() -> int:
    """Returns the resident memory of the process in bytes; 0 if it can't be read."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
