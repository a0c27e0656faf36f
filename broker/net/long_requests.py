"""Requests that are not finished when their handler returns, because they have many elements or
must wait.

No request may block the event loop for more than 10 ms. Therefore a handler for many elements is a
generator that yields after each element. The generator runs immediately while the turn has time.
After that it runs in slices, and the request is parked until the generator ends.

The broker first counts the elements of a large request and compares the count with the budget of
the API (`ServedApi.elements_max`). A worker thread then decodes the request, and encodes a large
response. docs/operate/limits.md has a table of the limits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import structlog

from broker.loop.slices import Slicer
from broker.loop.worker import Worker
from broker.net.peer import display_client_id
from broker.net.request import Request, Steps
from broker.net.response import error_frame
from protocol.elements import TooManyElements
from protocol.errors import INVALID_REQUEST, ProtocolError

logger = structlog.get_logger(__name__)

SURELY_SMALL_BYTES = 4096
"""The maximum size in bytes of a request that the broker handles without counting its elements,
because so small a request takes at most a few ms."""
DECODED_AT_ONCE = 500
"""The maximum number of elements of a request that the event loop's thread decodes. Decoding so
many takes about 1 ms."""
BYTES_AT_ONCE = 1024 * 1024
"""The size in bytes above which the worker thread decodes a request, even if it has few elements.
"""
AT_A_TIME = 4
"""The maximum number of large requests that are decoded and handled at the same time. The limit
bounds their memory."""


class LongRequests:
    """The long requests of one broker; only the event loop's thread may use this class."""

    def __init__(
        self,
        slicer: Slicer,
        worker: Worker,
        spawn: Callable[[Coroutine[Any, Any, None], str], object],
    ) -> None:
        self._slicer = slicer
        self._ticks_ns = slicer.time.ticks_ns
        self._worker = worker
        self._spawn = spawn
        self._room = asyncio.Semaphore(AT_A_TIME)
        self._encoding: dict[Request, asyncio.Future[Any]] = {}
        """The running encodings of large responses in the worker thread, by request."""

    def handle(self, services: object, request: Request) -> Steps | None:
        """Handles a request: immediately if it has few elements, otherwise after the worker thread
        has decoded it. Raises ProtocolError if the request is incomplete."""
        served = request.route.served
        if served.elements_max is None:
            return request.route.handle(services, request)
        size = len(request.buffer) - request.position
        if size <= BYTES_AT_ONCE:
            try:
                served.api.count_elements(
                    request.api_version,
                    request.buffer,
                    request.position,
                    min(DECODED_AT_ONCE, served.elements_max),
                )
            except TooManyElements:
                pass
            else:
                return request.route.handle(services, request)
        self.answer_later(request, self._decoded_and_handled(services, request))
        return None

    def work_off(self, request: Request, steps: Steps) -> None:
        """Runs ``steps``: immediately while this turn has time, then in slices."""
        if request.meter is not None:
            steps = request.meter.steps(request, steps)
        until_ns, ticks_ns = self._slicer.direct_until_ns(), self._ticks_ns
        if ticks_ns() < until_ns:
            for waits_for in steps:
                if waits_for is not None:
                    self.answer_later(request, self._rest(request, steps, waits_for))
                    return
                if ticks_ns() >= until_ns:
                    break
            else:
                return
        self.answer_later(request, self._rest(request, steps))

    def answer(self, request: Request, frame: Callable[[], bytes], error_code: int) -> None:
        """Ends ``request`` with a large response, which the worker thread encodes by calling
        ``frame``."""

        work = self._worker.run(request.connection, frame)
        encoding = self._encoding[request] = asyncio.ensure_future(work)

        async def encoded_and_sent() -> None:
            try:
                request.complete(await encoding, error_code)
            finally:
                del self._encoding[request]

        self.answer_later(request, encoded_and_sent())

    def answer_later(self, request: Request, work: Coroutine[Any, Any, None]) -> None:
        """Runs ``work``, which answers ``request``. If ``work`` raises an exception, logs the
        exception and sends an error response.

        The connection's next request is handled after ``work`` ends, as in Kafka: the next request
        may write to a topic that ``work`` creates.
        """
        connection = request.connection
        if connection.may_park():
            request.park()

        async def guarded() -> None:
            try:
                await work
            except ProtocolError as error:
                connection.refuse(error)
            except asyncio.CancelledError:  # the broker stops
                connection.close()
            except Exception:  # noqa: BLE001 - logged, with its traceback
                request.fail()

        self._spawn(guarded(), request.served.api.name)

    # -- inside

    async def _decoded_and_handled(self, services: object, request: Request) -> None:
        decode = partial(
            request.served.decode, request.api_version, request.buffer, request.position
        )
        async with self._room:
            if request.connection.closed:
                return
            try:
                body = await self._worker.run(request.connection, decode)
            except TooManyElements as error:
                self._refuse(request, error)
                return
            request.decoded(body)
            await self._slicer.turn()
            meter = request.meter
            if meter is not None:
                meter.begin()
            try:
                steps = request.route.handle(services, request)
            finally:
                if meter is not None:
                    meter.end(request.reply is not None)
            if steps is not None:
                if meter is not None:
                    steps = meter.steps(request, steps)
                await self._go_on(request, steps)

    async def _rest(
        self, request: Request, steps: Steps, waits_for: asyncio.Future[Any] | None = None
    ) -> None:
        if waits_for is not None:
            await asyncio.wait((waits_for,))
        async with self._room:
            await self._slicer.turn()
            await self._go_on(request, steps)

    async def _go_on(self, request: Request, steps: Steps) -> None:
        slices = self._slicer.work(request.served.api.name)
        connection = request.connection
        for waits_for in steps:
            if waits_for is not None:
                await slices.until(waits_for)
            elif slices.over:
                await slices.pause()
            if connection.closed:
                return
        slices.end()
        encoding = self._encoding.get(request)
        if encoding is not None:  # the memory of the encoding counts until the encoding ends
            await asyncio.wait((encoding,))

    def _refuse(self, request: Request, error: TooManyElements) -> None:
        """Rejects a request with too many elements: sends an error response or closes the
        connection, and logs one line."""
        frame = error_frame(request, INVALID_REQUEST)
        connection = request.connection
        logger.warning(
            "request rejected: more elements than its API allows"
            if frame is not None
            else "connection closed: more elements than the API allows",
            peer=connection.peer,
            client_id=display_client_id(request.client_id),
            api=request.served.api.name,
            elements_max=request.served.elements_max,
            bytes=len(request.buffer) - request.position,
            reason=str(error),
        )
        if frame is not None:
            request.complete(frame, INVALID_REQUEST)
        else:
            connection.server.protocol_errors += 1
            connection.close()
