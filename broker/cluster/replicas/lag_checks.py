"""The periodic checks of the leaders of this broker for in-sync replicas that lag."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from broker.loop.slices import Slicer
from broker.topics.replicas.replica import Replica


class LagChecks:
    """The checks of all replicas that this broker leads."""

    def __init__(self, replicas: Callable[[], Iterable[Replica]], slicer: Slicer) -> None:
        self._replicas = replicas
        self._slicer = slicer

    async def run(self) -> None:
        """Checks every replica once, in slices."""
        slices = self._slicer.work("in-sync replicas")
        for replica in list(self._replicas()):
            replica.tick()
            if slices.over:
                await slices.pause()
        slices.end()

    def idle_ms(self) -> int | None:
        """Returns the milliseconds until the first in-sync replica lags too long; None if none
        lags."""
        removals = (replica.removes_in_ms() for replica in self._replicas())
        return min((each for each in removals if each is not None), default=None)
