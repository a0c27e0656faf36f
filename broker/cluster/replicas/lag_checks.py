"""Checks periodically which followers in the ISR lag, for each partition that this broker leads."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from broker.loop.slices import Slicer
from broker.topics.replicas.replica import Replica


class LagChecks:
    """Checks the ISR of all partitions that this broker leads."""

    def __init__(self, replicas: Callable[[], Iterable[Replica]], slicer: Slicer) -> None:
        self._replicas = replicas
        self._slicer = slicer

    async def run(self) -> None:
        """Checks the ISR of every partition once, in slices."""
        slices = self._slicer.work("in-sync replicas")
        for replica in list(self._replicas()):
            replica.tick()
            if slices.over:
                await slices.pause()
        slices.end()

    def idle_ms(self) -> int | None:
        """Returns the time in ms after which the first lagging follower must be removed from an
        ISR, unless it catches up in this time; None if no follower lags."""
        removals = (replica.removes_in_ms() for replica in self._replicas())
        return min((each for each in removals if each is not None), default=None)
