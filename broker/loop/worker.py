"""The worker: long pure work (decoding, decompressing, encoding) in one thread.

One thread bounds the memory and the share of the GIL that such work takes, however many clients ask
for it. Clients take turns: each has a queue of its own, and the thread takes one job of each in
rotation, so that a client with thirty large batches delays another's by one of them.
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
"""For so long the thread may keep the interpreter while the loop wants it; Python's own 5 ms would
be added to every look at the sockets."""

Result = TypeVar("Result")
_Job = tuple[Callable[[], Any], "asyncio.Future[Any]"]


class Worker:
    """Runs jobs in a thread; use from the event loop's thread alone."""

    def __init__(self, time: Time) -> None:
        self._threads = time.threads(1, "worker")
        self._queues: dict[Hashable, deque[_Job]] = {}
        """By client, those whose turn is next first."""
        self._served: Hashable = None
        """Whose job runs now; the rest of its queue comes behind the others."""
        self._running: asyncio.Future[Any] | None = None
        """What becomes of the job that the thread is at."""

    async def run(self, client: Hashable, job: Callable[[], Result]) -> Result:
        """What ``job()`` returns or raises; ``client`` is whom it takes turns for.

        The job must touch nothing that the loop's thread changes meanwhile.
        """
        done: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(client, deque()).append((job, done))
        if self._running is None:
            self._next()
        return await done

    def stop(self) -> None:
        """Let the thread end after the job that it is at; whoever waits is cancelled."""
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
            if not done.done():  # else whoever wanted it was cancelled
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
    """What the job had in hand goes with it: an error holds the frames that it went through, in
    circles that only a collection would end."""
    while error is not None:
        clear_frames(error.__traceback__)
        error = error.__context__
