"""One simulated process of the broker, with its event loop, clock and files.

The broker is created as by `muster serve`, but the simulation provides the event loop, the clock,
the sockets and the files. The HTTP listener is off.
"""

from __future__ import annotations

import asyncio
import errno
import inspect
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from broker.broker import Broker, CannotJoin
from broker.config.config import Config
from broker.config.sources import load
from broker.metrics.verdicts import Held
from tests.simulated_files import Fault, SimulatedFiles
from tests.simulation.whole.virtual_loop import VirtualLoop
from tests.simulation.whole.virtual_time import VirtualTime
from verdicts.judge import Judgement

if TYPE_CHECKING:
    from broker.cluster.zookeeper.zookeeper import Connect
    from tests.simulation.whole.agenda import Agenda
    from tests.simulation.whole.network import Network

PORT = 9092
DIRECTORY = "/data"
CLOSINGS = 10
"""The maximum number of attempts to close a coroutine. An attempt fails if the coroutine awaits
something in a `finally` block."""


class ProcessFiles(SimulatedFiles):
    """The files of a machine as one process sees them. A dead process cannot change them."""

    def __init__(self, files: SimulatedFiles, loop: VirtualLoop) -> None:
        self.__dict__.update(files.__dict__)  # shared names, faults and locks
        self.files = files
        self.loop = loop
        self.dead = False

    def room(self, more: int) -> int:
        return self.files.room(more)

    def fault(self, operation: str, path: str) -> Fault | None:
        if self.dead:
            raise OSError(errno.EIO, "a dead process touches its files", path)
        return super().fault(operation, path)


def configuration(settings: Mapping[str, str]) -> Config:
    """Returns the broker's configuration for ``settings`` on the command line."""
    sets = {
        "listeners": f"PLAINTEXT://127.0.0.1:{PORT}",
        "log.dirs": DIRECTORY,
        "http.listener": "off",
        **settings,
    }
    return load(None, {}, [f"{key}={value}" for key, value in sets.items()], {})


class Machine(Protocol):
    """The machine on which processes run, one after another."""

    agenda: Agenda
    network: Network
    files: SimulatedFiles
    settings: dict[str, str]
    """Settings with which each broker process of the machine is started."""
    wall_ahead_s: float
    happened: Counter[str]

    def serves(self) -> None:
        """Called when the broker has recovered its logs and accepts connections."""


class Process:
    """A broker process. `run` runs it until it ends, it is killed, or its event loop is
    suspended."""

    def __init__(
        self,
        machine: Machine,
        chance: Random,
        new_loop: Callable[[Agenda, Network, Random], VirtualLoop] = VirtualLoop,
        zookeeper: Connect | None = None,
    ) -> None:
        self.machine = machine
        self.loop = new_loop(machine.agenda, machine.network, Random(chance.random()))
        self.time = VirtualTime(self.loop, Random(chance.random()), lambda: machine.wall_ahead_s)
        self.files = ProcessFiles(machine.files, self.loop)
        self.broker = Broker(
            configuration(machine.settings),
            fs=self.files,
            time=self.time,
            bind=machine.network.bind,
            zookeeper=zookeeper,
        )
        self.serves = False
        self.killed = False
        self.loses_power = False
        self.ended = False
        """True if the process has ended, after a request to stop or by itself."""
        self.died_of: str | None = None
        """The error that ended the process, or None if it was requested to stop."""
        self._stop: asyncio.Event | None = None
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Schedules the start of the broker in the event loop."""
        self._task = self.loop.create_task(self._live())
        self._task.add_done_callback(lambda _: self.loop.leave())

    def run(self) -> None:
        if self._task is None:
            self.begin()
        self.loop.run_forever()
        self.look()

    def look(self) -> None:
        """Detects if the process has ended by itself."""
        assert self._task is not None
        if self._task.done() and not self.killed:
            self.ended = True
            error = self._task.exception()
            if error is not None:
                if not isinstance(error, OSError | CannotJoin):
                    raise error
                self.died_of = f"{type(error).__name__}: {error}"

    async def _live(self) -> None:
        broker = self.broker
        self._stop = asyncio.Event()
        try:
            broker.open()
            await broker.join()
            await broker.start()
            self._note_verdicts()
            broker.verdicts.start()  # the missing HTTP server would do that
            self.serves = True
            self.machine.serves()
            waits = [asyncio.ensure_future(each.wait()) for each in (self._stop, broker.stopped)]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
            self.serves = False
            await broker.verdicts.stop()
            await broker.stop()
            self.died_of = broker.fatal
        finally:
            broker.release()

    def _note_verdicts(self) -> None:
        """Counts the verdicts of groups in the statistics of the simulation. Asserts that each
        finding has a sentence."""
        verdicts, hold = self.broker.verdicts, self.broker.verdicts._hold

        def held(judgement: Judgement, now_ms: int) -> Held:
            self.machine.happened[f"verdict {judgement.verdict}"] += 1
            for each in judgement.findings:
                assert each.sentence
            return hold(judgement, now_ms)

        verdicts._hold = held  # type: ignore[method-assign]

    # -- actions of the world

    def ask_to_stop(self) -> None:
        self.serves = False
        if self._stop is not None:
            self.loop.call_soon(self._stop.set)

    def kill(self) -> None:
        """Kills the process with SIGKILL, so that it executes no further instruction."""
        self.killed, self.serves = True, False
        self.files.dead = True
        self.loop.leave()

    def bury(self) -> None:
        """Closes all objects of a dead process, so that none of their code runs later."""
        self.files.dead = True
        for task in sorted(asyncio.all_tasks(self.loop), key=lambda each: each.get_name()):
            task._log_destroy_pending = False
            _close(task.get_coro())
        self.loop.close()


def _close(coroutine: Coroutine[Any, Any, Any]) -> None:
    """Closes a coroutine, and the coroutines that were passed to it and have not started."""
    given: list[Coroutine[Any, Any, Any]] = []
    if inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
        given = [each for each in coroutine.cr_frame.f_locals.values() if inspect.iscoroutine(each)]
    for _ in range(CLOSINGS):
        with suppress(RuntimeError):  # the coroutine still waits
            coroutine.close()
            break
    for each in given:
        _close(each)
