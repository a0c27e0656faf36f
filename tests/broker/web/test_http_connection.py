"""The timeouts of one HTTP connection. The test advances the clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest
import uvicorn
from starlette.responses import PlainTextResponse
from uvicorn.server import ServerState

from broker.time import Time
from broker.web.http_connection import HTTP_LIMITS, BoundedConnection
from tests.broker.edge import eventually

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
REQUEST_S, UNREAD_S = HTTP_LIMITS.request_s, HTTP_LIMITS.unread_s


class Timer:
    """A scheduled call that can be cancelled."""

    def __init__(self, at_s: float, call: Callable[[], object]) -> None:
        self.at_s, self.call = at_s, call
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class HandLoop:
    """Wraps the running event loop and replaces its clock. The test advances the clock with
    `advance`."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.now_s

    def call_later(self, delay_s: float, call: Callable[[], object]) -> Timer:
        self.timers.append(Timer(self.now_s + delay_s, call))
        return self.timers[-1]

    def create_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(work)

    def advance(self, by_s: float) -> None:
        until_s = self.now_s + by_s
        while due := [t for t in self.timers if not t.cancelled and t.at_s <= until_s]:
            first = min(due, key=lambda timer: timer.at_s)
            self.timers.remove(first)
            self.now_s = first.at_s
            first.call()
        self.now_s = until_s


class LoopTime(Time):
    """A `Time` that uses the clock and the timers of a `HandLoop`."""

    def __init__(self, loop: HandLoop) -> None:
        super().__init__(monotonic_s=loop.time)
        self._loop = loop

    def call_later(self, seconds: float, callback: Callable[..., object], *args: Any) -> Any:
        return self._loop.call_later(seconds, partial(callback, *args))


class HandTransport(asyncio.Transport):
    """A fake transport that records written bytes. ``unread`` is the number of bytes in its write
    buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.out = bytearray()
        self.unread = 0
        self.closing = self.aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.out += data

    def get_write_buffer_size(self) -> int:
        return self.unread

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.closing = self.aborted = True

    def pause_reading(self) -> None:
        """Does nothing, because the test itself passes bytes to the connection."""

    def resume_reading(self) -> None:
        """Does nothing, because the test itself passes bytes to the connection."""


class Scene:
    """An HTTP connection whose requests all get the response ``ok``."""

    def __init__(self) -> None:
        app = PlainTextResponse("ok")
        config = uvicorn.Config(app, http="h11", ws="none", lifespan="off", log_config=None)
        config.load()
        self.loop, self.transport = HandLoop(), HandTransport()
        self.state = ServerState()
        self.connection = BoundedConnection(
            config=config,
            server_state=self.state,
            app_state={},
            _loop=self.loop,
            limits=HTTP_LIMITS,
            time=LoopTime(self.loop),
        )
        self.connection.connection_made(self.transport)

    async def answered(self, times: int) -> None:
        await eventually(lambda: self.transport.out.count(b"\r\n\r\nok") == times)

    def is_over(self) -> bool:
        return self.transport.closing


@pytest.mark.parametrize("sent", [b"", GET[:9], GET[:-2]])
def test_http_connection_without_a_complete_request_is_closed_at_timeout(sent: bytes) -> None:
    scene = Scene()
    if sent:
        scene.connection.data_received(sent)

    scene.loop.advance(REQUEST_S - 0.1)
    assert not scene.is_over()
    scene.loop.advance(0.2)
    assert scene.is_over()


def test_incomplete_http_request_times_out_while_bytes_still_arrive() -> None:
    scene = Scene()
    scene.connection.data_received(GET[:-2] + b"X: ")
    for _ in range(9):
        scene.loop.advance(REQUEST_S / 10)
        scene.connection.data_received(b"x")
    assert not scene.is_over()

    scene.loop.advance(REQUEST_S / 10 + 0.1)
    assert scene.is_over()


async def test_http_request_timeout_restarts_at_each_request() -> None:
    """The connection stays open while requests arrive in time."""
    scene = Scene()
    for number in range(1, 10):
        scene.connection.data_received(GET[:20])
        scene.loop.advance(REQUEST_S / 2)
        scene.connection.data_received(GET[20:])
        await scene.answered(number)
    assert not scene.is_over()

    scene.connection.data_received(GET[:20])
    scene.loop.advance(REQUEST_S + 0.1)
    assert scene.is_over()


async def test_pipelined_http_requests_are_answered_in_order() -> None:
    scene = Scene()
    scene.connection.data_received(GET + GET + GET[:9])

    await scene.answered(2)
    assert not scene.is_over()
    scene.loop.advance(REQUEST_S + 0.1)
    assert scene.is_over()


async def test_idle_http_connection_is_closed_after_its_response() -> None:
    scene = Scene()
    scene.connection.data_received(GET)
    await scene.answered(1)

    scene.loop.advance(REQUEST_S)

    assert scene.is_over()
    assert not scene.transport.aborted, "what is on its way still arrives"


def test_http_connection_is_aborted_when_the_client_does_not_read_the_response() -> None:
    scene = Scene()
    scene.connection.data_received(GET[:9])
    scene.transport.unread = 1 << 20
    scene.connection.pause_writing()
    scene.loop.advance(UNREAD_S + 0.1)

    assert scene.transport.aborted
    assert scene.state.connections == set()


async def test_connection_of_a_slow_http_reader_is_not_aborted_while_it_reads() -> None:
    scene = Scene()
    scene.transport.unread = 20 * HTTP_LIMITS.unread_bytes
    scene.connection.data_received(GET[:-2] + b"Connection: close\r\n\r\n")
    await scene.answered(1)
    assert scene.is_over()
    for _ in range(19):
        scene.transport.unread -= HTTP_LIMITS.unread_bytes
        scene.loop.advance(UNREAD_S)
        assert not scene.transport.aborted

    scene.connection.resume_writing()  # The peer has still not read the remaining bytes.
    scene.loop.advance(UNREAD_S)
    assert scene.transport.aborted


@pytest.mark.parametrize("exc", [None, ConnectionResetError()])
async def test_timers_of_an_http_connection_are_cancelled_when_it_closes(
    exc: Exception | None,
) -> None:
    scene = Scene()
    scene.connection.data_received(GET)
    await scene.answered(1)
    scene.connection.pause_writing()
    scene.connection.connection_lost(exc)

    scene.loop.advance(100)

    assert not scene.transport.aborted
    assert scene.state.connections == set()
