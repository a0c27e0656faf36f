"""Runs long computations (decoding, decompressing, encoding) in one thread.

One thread limits the memory and the share of the GIL that this work uses, however many clients
request it. Each client has a queue, and the thread runs one job of each queue in rotation. A client
with thirty large batches thus delays another client by only one batch.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Hashable
from traceback import clear_frames
from typing import Any, TypeVar

from broker.time import Time

SWITCH_S = 0.001
"""The time in seconds for which the thread may keep the GIL when the event loop needs it.

With Python's default of 5 ms, the thread would delay every read of the sockets.
"""

Result = TypeVar("Result")
_Job = tuple[Callable[[], Any], "asyncio.Future[Any]"]


class Worker:
    """Runs jobs in one thread. Only the event loop's thread may use this class."""

    def __init__(self, time: Time) -> None:
        self._threads = time.threads(1, "worker")
        self._queues: dict[Hashable, deque[_Job]] = {}
        """The queues by client, in the order in which the thread serves the clients."""
        self._served: Hashable = None
        """The client whose job is running. After the job, the client moves to the end of the queue
        of clients: its next job runs after a job of each other client."""
        self._running: asyncio.Future[Any] | None = None

    async def run(self, client: Hashable, job: Callable[[], Result]) -> Result:
        """Runs ``job`` in the thread, and returns its result or raises its exception. The jobs of
        one ``client`` share a queue.

        A job must not use any object that the event loop's thread changes.
        """
        done: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(client, deque()).append((job, done))
        if self._running is None:
            self._next()
        return await done

    def stop(self) -> None:
        """Makes the thread end after its current job. Cancels all waiting callers."""
        queues, self._queues = self._queues, {}
        for queue in queues.values():
            for _, done in queue:
                done.cancel()
        if self._running is not None:
            self._running.cancel()
        self._threads.stop()

    def _next(self) -> None:
        self._running = None
        if self._served in self._queues:
            self._queues[self._served] = self._queues.pop(self._served)
        while self._queues:
            client, queue = next(iter(self._queues.items()))
            if not queue:
                del self._queues[client]
                continue
            job, done = queue.popleft()
            if not done.done():  # otherwise the caller was cancelled
                self._start(client, job, done)
                return

    def _start(self, client: Hashable, job: Callable[[], Any], done: asyncio.Future[Any]) -> None:
        def ended(running: asyncio.Future[Any]) -> None:
            error = None if running.cancelled() else running.exception()
            _let_go(error)
            if not done.done():
                if error is None:
                    done.set_result(running.result())
                else:
                    done.set_exception(error)
            self._next()

        self._running, self._served = done, client
        sys.setswitchinterval(SWITCH_S)
        self._threads.run(job).add_done_callback(ended)


def _let_go(error: BaseException | None) -> None:
    """Clears the local variables in the traceback of an exception. Otherwise only a garbage
    collection would free them, because the traceback is part of a reference cycle."""
    while error is not None:
        clear_frames(error.__traceback__)
        error = error.__context__
