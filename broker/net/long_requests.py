"""Requests that take longer than their handler's call: over many elements, or waiting for others.

Law 9: nothing holds the loop for more than 10 ms, whatever a client sends. A handler over elements
is a generator that yields after each of them. It runs at once while the loop has time; the rest
runs in slices while the request is parked. The elements of a large request are counted first,
against the budget of its API (`ServedApi.elements_max`); it is decoded in the worker's thread, and
a large answer is encoded there. docs/operate/limits.md has the table.
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
"""A request up to this size is handled without a count: its elements need a few milliseconds."""
DECODED_AT_ONCE = 500
"""Elements that a request may name to be decoded in the loop's thread: about 1 ms."""
BYTES_AT_ONCE = 1024 * 1024
"""A request above this is decoded in the worker, however little it names."""
AT_A_TIME = 4
"""Large requests between their decoding and the end of their handling: their memory is bounded."""


class LongRequests:
    """The event loop's long work; one for a broker, used from the loop's thread alone."""

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
        """The answers that the worker is at."""

    def handle(self, services: object, request: Request) -> Steps | None:
        """Handle a request that may name many elements: at once if it does not.

        Raises ProtocolError for one that is not whole.
        """
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
        """Work ``steps`` off, at once as far as this turn of the loop has time for them."""
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
        """End ``request`` with a large answer, which the worker encodes."""

        work = self._worker.run(request.connection, frame)
        encoding = self._encoding[request] = asyncio.ensure_future(work)

        async def encoded_and_sent() -> None:
            try:
                request.complete(await encoding, error_code)
            finally:
                del self._encoding[request]

        self.answer_later(request, encoded_and_sent())

    def answer_later(self, request: Request, work: Coroutine[Any, Any, None]) -> None:
        """Runs ``work``, which answers ``request``; a bug in it is logged and answered.

        The client's next request is handled after it, as in Kafka: it may write to the topic that
        is being created.
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
        if encoding is not None:  # the memory of the encoding counts until it ends
            await asyncio.wait((encoding,))

    def _refuse(self, request: Request, error: TooManyElements) -> None:
        """Answers a request above its budget, or closes its connection, with one log line."""
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
