"""The event loop of one of several simulated processes. The world decides when a loop runs one
iteration, called a turn.

During a turn only the time of the process advances, not the time of the world. The next turn of the
process starts when the world has reached the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tests.simulation.cluster.internet import CallTransport, MachineNetwork
from tests.simulation.whole.virtual_loop import ITERATION_NS, VirtualLoop


class FellowLoop(VirtualLoop):
    """The event loop of one simulated process."""

    def wakes_ns(self) -> int | None:
        """Returns the time in ns at which the loop next has work, or None if it has no work and no
        timer."""
        if self._ready or self.network.news:
            return max(self.now_ns, self.agenda.now_ns)
        return self._next_timer_ns()

    def turn(self) -> None:
        """Runs one iteration of the loop, which handles received data, due timers and ready
        callbacks."""
        self.iterations += 1
        self.now_ns = max(self.now_ns, self.agenda.now_ns) + ITERATION_NS
        asyncio._set_running_loop(self)
        try:
            if self.network.news:
                self.network.deliver()
            if not self._left:
                self._run_timers()
            if not self._left:
                self._run_ready()
            self.after_iteration()
        finally:
            asyncio._set_running_loop(None)

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.Protocol], host: str, port: int, **_: Any
    ) -> tuple[CallTransport, asyncio.Protocol]:
        assert isinstance(self.network, MachineNetwork)
        return await self.network.call(protocol_factory, host, port, self)
