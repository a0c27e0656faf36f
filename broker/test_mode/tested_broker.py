"""The broker of a test. It keeps its addresses when it is stopped and started again.

A `TestedBroker` owns the parts that remain when the `Broker` stops: addresses, time, the disk,
faults, the recorder of requests, the last log lines. While the `Broker` is stopped, the addresses
remain bound and refuse connections.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from typing import Any

import structlog

from broker.broker import (
    BadDirectory,
    Broker,
    CannotJoin,
    CannotListen,
    CorruptLog,
    DirectoryLocked,
)
from broker.cluster.zookeeper.zookeeper import Connect
from broker.config.config import BadConfig, Config
from broker.test_mode.addresses import Addresses
from broker.test_mode.clock.mock_time import MockTime
from broker.test_mode.faults import Faults
from broker.test_mode.files.disk import Disk
from broker.test_mode.lines import KeptLines
from broker.test_mode.refusals import NotNow
from broker.test_mode.requests.interposed import Interposed
from broker.test_mode.requests.request_recorder import RequestRecorder
from broker.test_mode.run import Run, register_tasks

logger = structlog.get_logger(__name__)

CANNOT_START = (BadConfig, BadDirectory, CannotJoin, CannotListen, CorruptLog, DirectoryLocked)
"""The exceptions, besides OSError, that a failed start raises. Each message is a whole sentence."""


class TestedBroker:
    """The tested broker of one process. Only the event loop's thread may use this class."""

    __test__ = False

    def __init__(
        self,
        config: Config,
        addresses: Addresses,
        directory: str | None,
        lines: KeptLines,
        time: MockTime | None = None,
        connect: Connect | None = None,
    ) -> None:
        """Creates the tested broker. ``directory`` is the data directory, or None for data in
        memory. ``connect`` opens the registry sessions of a broker in a cluster."""
        self.addresses = addresses
        self.lines = lines
        self.time = time or MockTime()
        self.system = self.time.real
        self.disk = Disk(directory, self.time)
        self.faults = Faults()
        """The active faults: of requests, the disk and the coordinator."""
        self.recorder = RequestRecorder(self.time)
        self.interposed = Interposed(self.recorder)
        self.ended = asyncio.Event()
        """An event that is set when the process is to end."""
        self._settings = {
            **config.given,
            **addresses.settings,
            "log.dirs": self.disk.directory,
        }
        self._connect = connect
        self._run: Run | None = None
        self._failed: str | None = None
        """The reason why the last run failed, or why the next run could not start."""
        self._changing = asyncio.Lock()
        """The lock that must be held while the `Broker` is started or stopped."""
        self._tasks: set[asyncio.Task[None]] = set()

    # -- the current run

    @property
    def is_running(self) -> bool:
        return self._run is not None

    @property
    def run(self) -> Run:
        """The broker's current run. Raises NotNow with the reason if the broker does not run."""
        if self._run is None or self._run.broker.fatal is not None:
            raise NotNow(self._why_not())
        return self._run

    @property
    def broker(self) -> Broker:
        """The broker of the current run. Raises NotNow with the reason if no run is active."""
        return self.run.broker

    def _why_not(self) -> str:
        failed = self._failed if self._run is None else self._run.broker.fatal
        if failed is None:
            return "the broker is stopped: POST /test/start starts it"
        return f"the broker has failed: {failed}; POST /test/reset starts an empty broker"

    # -- control by a test

    async def start(self) -> None:
        """Starts the broker with its existing data, unless the broker already runs.

        Raises OSError and the exceptions of CANNOT_START.
        """
        async with self._changing:
            if self._run is None:
                await self._start()

    async def stop(self) -> None:
        """Stops the broker cleanly, as SIGTERM does. Does nothing if the broker does not run."""
        async with self._changing:
            await self._end(Run.stop)

    async def kill(self) -> None:
        """Kills the run as SIGKILL does: the run flushes, writes and sends nothing more."""
        async with self._changing:
            await self._end(Run.kill)

    async def reset(self) -> float:
        """Replaces the broker by a new broker without data. Returns the duration in ms. Raises
        NotNow, OSError and the exceptions of CANNOT_START."""
        async with self._changing:
            began_ns = self.system.ticks_ns()
            self.disk.check_emptying()
            await self._end(Run.kill)
            self.time.reset()
            self.empty()
            gc.collect()
            await self._start()
            return (self.system.ticks_ns() - began_ns) / 1e6

    def empty(self) -> None:
        """Deletes the data and the recorded requests, and ends all faults. The broker must not be
        running."""
        self.faults.end_all()
        self.recorder.forget()
        self.disk.empty()

    async def end(self) -> None:
        """Ends the broker for the last time. If its data is on a real disk, the broker is stopped,
        so that it writes the data. If its data is in memory, the broker is killed."""
        async with self._changing:
            await self._end(Run.kill if self.disk.in_memory else Run.stop)
            self.addresses.close()

    def disk_has_room(self) -> None:
        """Immediately retries the writes that failed because the disk was full."""
        if self._run is not None:
            for partition in self._run.broker.logs.all():
                partition.probe_now()

    @property
    def is_loading(self) -> bool:
        """Returns True while the broker loads groups or transactional ids."""
        return self._run is not None and self._run.broker.loading

    def holding_clients(self) -> AbstractContextManager[None]:
        """Returns a context in which arriving requests of clients are delayed."""
        return self.interposed.holding_clients()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs ``work`` as a task that continues when the broker is stopped and started again.
        ``work`` must handle its own errors."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # -- runs

    async def _start(self) -> None:
        register_tasks(asyncio.get_running_loop())
        self._failed = None
        run = Run(
            Config(self._settings),
            self.disk.files(),
            self.time,
            self.interposed,
            self.addresses.http,
            self._connect,
        )
        self.addresses.lend()
        try:
            await run.start()
        except (*CANNOT_START, OSError) as error:
            self.addresses.hold()
            self._failed = str(error)
            raise
        self._run = run
        self.spawn(self._watch(run))

    async def _end(
        self, how: Callable[[Run], Coroutine[Any, Any, None]], failed: str | None = None
    ) -> None:
        run, self._run = self._run, None
        self._failed = failed
        if run is not None:
            run.broker.stopped.set()  # ends `_watch` of the run
            await how(run)
            self.addresses.hold()
            self.interposed.broker_gone()
            self.faults.run_over()

    async def _watch(self, run: Run) -> None:
        """Ends a run whose broker has failed. Without test mode, the process would end in this
        case."""
        await run.broker.stopped.wait()
        async with self._changing:
            if self._run is run:
                logger.error(
                    "broker stopped",
                    reason=run.broker.fatal,
                    advice="POST /test/reset starts the broker",
                )
                await self._end(Run.stop, run.broker.fatal)
