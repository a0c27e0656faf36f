"""One run of a tested broker, which corresponds to one process of a real broker: it starts, and
later is stopped or killed.

Each run has its own objects for files, time, connections and tasks, which its `Broker` uses. These
objects stop working when the run ends. So after a kill, the broker can't write, wait or send
responses, although the process of the test continues.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, MutableMapping
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import structlog
from structlog.typing import EventDict

from broker.broker import Broker
from broker.config.config import Config
from broker.net.interpose import Interpose
from broker.test_mode.cleaner_thread import CleanerThread
from broker.test_mode.files.faulty_files import FaultyFiles
from broker.test_mode.run_time import RunTime
from broker.time import Time

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from broker.cluster.zookeeper.zookeeper import Connect

_WHOSE: ContextVar[Run | None] = ContextVar("run of a tested broker", default=None)
"""The run whose code is being executed. Tasks, timers and sockets that this code creates inherit
the value."""
Result = TypeVar("Result")

_ROUNDS = 100
"""The maximum number of event loop iterations for which a kill waits until the tasks of the killed
broker have ended."""


class Run:
    """A `Broker` in test mode, from its start to its stop, with its own clock, files, connections
    and tasks. Only the event loop's thread uses a `Run`."""

    def __init__(
        self,
        config: Config,
        files: FaultyFiles,
        time: Time,
        interpose: Interpose,
        http: str,
        connect: Connect | None = None,
    ) -> None:
        """Creates the run. ``http`` is the address HOST:PORT of the server that serves the broker's
        pages. ``connect`` opens the registry session of a broker in a cluster.

        A thread cleans logs, even on real disks: simulated disk faults would not affect a separate
        process.
        """
        self.time = RunTime(time)
        self.files = files
        self.broker = Broker(
            config,
            fs=files,
            time=self.time,
            interpose=interpose,
            new_cleaner=partial(CleanerThread, self.time.real, files),
            zookeeper=connect,
        )
        self.is_over = False
        """True if the run has ended: it can't write, wait or send responses any more."""
        self.tasks: set[asyncio.Task[Any]] = set()
        self._system = Time()
        self._http = http
        self._pages: ASGIApp | None = None
        self._serves = False
        self.context = contextvars.copy_context()
        self.context.run(_WHOSE.set, self)

    async def start(self) -> None:
        """Opens the data and accepts connections. Raises the exceptions of `Broker.open` and
        `Broker.start`."""
        try:
            await self._do(self._start())
        except BaseException:
            await self.kill()
            raise

    async def _start(self) -> None:
        self.broker.open()
        await self.broker.join()
        self._serves = True
        await self.broker.start()
        self.broker.advertised.serving_http(self._http)  # `muster cluster why` asks for it

    async def stop(self) -> None:
        """Stops the broker cleanly and writes its complete state."""
        await self._do(self.broker.stop())
        await self.kill()  # ends tasks for which the stop does not wait

    async def kill(self) -> None:
        """Ends the run as SIGKILL does. The run writes and logs nothing more, and its connections
        are closed."""
        self.is_over = True
        self.files.kill()
        if self._serves:
            self.broker.server.drop()
        self.time.end()
        for _ in range(_ROUNDS):
            for task in list(self.tasks):
                task.cancel()
            await self._system.sleep(0)
            if not self.tasks:
                break
        self.broker.release()

    def within(self, work: Callable[[], Result]) -> Result:
        """Calls ``work``. Tasks and timers that ``work`` starts end with the run."""
        return self.context.copy().run(work)

    async def _do(self, work: Coroutine[Any, Any, None]) -> None:
        await asyncio.get_running_loop().create_task(work, context=self.context.copy())

    # -- the broker's HTTP

    async def serve_pages(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers an HTTP request for one of the broker's pages. The first request starts the
        collection of data for the pages."""
        begun = False

        async def noting(message: MutableMapping[str, Any]) -> None:
            nonlocal begun
            begun = True
            await send(message)

        work = asyncio.get_running_loop().create_task(
            self._answer(scope, receive, noting), context=self.context.copy()
        )
        with suppress(asyncio.CancelledError):
            await work
        if not begun:
            from starlette.responses import JSONResponse

            gone = JSONResponse({"error": "the broker stopped during the request"}, 503)
            await gone(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._pages is None:
            self._pages = self.broker.serve_pages(self._http).application()
        await self._pages(scope, receive, send)


def drop_lines_of_the_dead(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """Drops a log line of a broker that has stopped. Adds the broker id to a log line of a broker
    in a cluster."""
    run = _WHOSE.get()
    if run is None:
        return event
    if run.is_over:
        raise structlog.DropEvent
    if run.broker.config.is_in_cluster:
        event["node"] = run.broker.config["broker.id"]
    return event


def register_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Makes ``loop`` register each new task with the broker run (the simulated process) that
    creates the task."""
    loop.set_task_factory(_registered_task)  # type: ignore[arg-type]


def _registered_task(
    loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **more: Any
) -> asyncio.Task[Any]:
    task = asyncio.Task(work, loop=loop, **more)
    context = more.get("context")
    run = _WHOSE.get() if context is None else context.get(_WHOSE)
    if run is not None:
        run.tasks.add(task)
        task.add_done_callback(run.tasks.discard)
    return task
