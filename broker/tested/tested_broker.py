"""The broker of a test: always at the same addresses, whatever becomes of the `Broker` in it.

Owns what outlives one run of the broker: addresses, time, files, the last log lines. Each run is a
`Broker` of its own. While none runs its addresses stay ours and refuse connections.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from broker.broker import Broker
from broker.config.config import Config
from broker.tested.addresses import Addresses
from broker.tested.lines import KeptLines
from broker.tested.refusals import NotNow
from broker.tested.run import Run
from broker.time import Time


class TestedBroker:
    """One for a process; use from the event loop's thread."""

    __test__ = False
    """It is no test, whatever its name."""

    def __init__(
        self, config: Config, addresses: Addresses, directory: str | None, lines: KeptLines
    ) -> None:
        """``directory``: where the data are; None: in memory."""
        self.addresses = addresses
        self.directory = directory
        self.lines = lines
        """What the broker has logged."""
        self.time = Time()
        self.ended = asyncio.Event()
        """Set when the process shall end."""
        self._settings = {**config.given, **addresses.settings}
        self._run: Run | None = None
        self._changing = asyncio.Lock()
        """Held by whoever starts or ends a run."""
        self._places: list[tempfile.TemporaryDirectory[str]] = []

    @property
    def run(self) -> Run:
        """The run that serves now. Raises NotNow, with the reason, where there is none."""
        if self._run is None:
            raise NotNow("the broker is stopped: POST /test/start starts it")
        if self._run.broker.fatal is not None:
            raise NotNow(
                f"the broker can't go on: {self._run.broker.fatal};"
                " POST /test/reset brings an empty one"
            )
        return self._run

    @property
    def broker(self) -> Broker:
        """The broker that serves now. Raises NotNow, with the reason, where there is none."""
        return self.run.broker

    async def start(self) -> None:
        """Starts a run over the data that are there. Raises as `Broker.open` and `start`."""
        async with self._changing:
            if self._run is None:
                await self._start()

    async def reset(self) -> float:
        """An empty broker; returns how many milliseconds that took."""
        async with self._changing:
            began_ns = self.time.ticks_ns()
            await self._stop()
            await self._start()
            return (self.time.ticks_ns() - began_ns) / 1e6

    async def end(self) -> None:
        """The process ends."""
        async with self._changing:
            await self._stop()
            self.addresses.close()
            for each in self._places:
                each.cleanup()

    async def _start(self) -> None:
        place = tempfile.TemporaryDirectory(prefix="muster-test-")
        self._places.append(place)
        directory = str(Path(place.name) / "data")
        run = Run(
            Config({**self._settings, "log.dirs": self.directory or directory}),
            None,
            self.time,
            self.addresses.http,
        )
        await run.start()
        self._run = run

    async def _stop(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            await run.stop()
