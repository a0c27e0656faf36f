"""Limits for HTTP clients: incomplete requests, unread responses, and the number of connections."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from broker.time import Time
from broker.web.http import HttpServer
from broker.web.http_connection import HTTP_LIMITS, HttpLimits
from broker.web.http_guard import Hosts
from protocol.errors import NONE
from tests.broker.config.served import GROUP
from tests.broker.edge import eventually
from tests.broker.seen import seeing

HOST = "127.0.0.1"
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
WITHIN_S = 30
SHORT = HttpLimits(request_s=0.3, unread_s=0.3)
CHUNK = bytes(1 << 18)


class Peer(NamedTuple):
    """An HTTP connection to which the test writes bytes."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ended(self) -> bytes:
        """Returns all bytes that the server sends before it closes the connection."""
        try:
            return await asyncio.wait_for(self.reader.read(), WITHIN_S)
        except ConnectionResetError:
            return b""


class Served:
    """An HTTP server with short timeouts. The path `/endless` sends data until the reader
    disconnects."""

    def __init__(self, limits: HttpLimits) -> None:
        self.writing = 0
        self.bound = socket.create_server((HOST, 0))
        routes = [Route("/", self._short), Route("/endless", self._endless)]
        self.server = HttpServer(
            self.bound, Starlette(routes=routes), Hosts(HOST, [], ""), Time(), limits
        )

    async def _short(self, _request: Request) -> Response:
        return PlainTextResponse("ok")

    async def _endless(self, _request: Request) -> Response:
        async def body() -> AsyncIterator[bytes]:
            self.writing += 1
            try:
                while True:
                    yield CHUNK
                    await asyncio.sleep(0)  # The await raises when the reader has disconnected.
            finally:
                self.writing -= 1

        return StreamingResponse(body())

    @property
    def open(self) -> int:
        return len(self.server._server.server_state.connections)

    async def peer(self, first: bytes = b"") -> Peer:
        reader, writer = await asyncio.open_connection(*self.bound.getsockname(), limit=1 << 16)
        writer.write(first)
        return Peer(reader, writer)

    async def endless(self) -> Peer:
        peer = await self.peer(GET.replace(b"/ ", b"/endless ", 1))
        await asyncio.wait_for(peer.reader.readexactly(100), WITHIN_S)
        return peer


@asynccontextmanager
async def serving(limits: HttpLimits = SHORT) -> AsyncIterator[Served]:
    served = Served(limits)
    served.server.start()
    try:
        yield served
    finally:
        await served.server.stop()


@pytest.mark.parametrize("sent", [b"", GET[:9], GET[:-2], GET[:-4] + b"\r\nX: "])
async def test_http_connection_with_a_partial_request_is_closed(sent: bytes) -> None:
    async with serving() as served:
        peer = await served.peer(sent)

        assert await peer.ended() == b""
        await eventually(lambda: served.open == 0)


async def test_http_connection_above_the_limit_replaces_that_with_the_oldest_partial_request() -> (
    None
):
    async with serving(HttpLimits(connections=3)) as served:
        half = [await served.peer(GET[:9])]
        await eventually(lambda: served.open == 1)
        half += [await served.peer(GET[:9]) for _ in range(2)]
        await eventually(lambda: served.open == 3)

        good = await served.peer(GET)

        assert await asyncio.wait_for(good.reader.readline(), WITHIN_S) == b"HTTP/1.1 200 OK\r\n"
        assert await half[0].ended() == b""
        assert served.open == 3
        for each in (*half[1:], good):
            each.writer.close()


async def test_http_connection_above_the_limit_is_closed_when_no_open_connection_is_idle() -> None:
    async with serving(HttpLimits(connections=2)) as served:
        busy = [await served.endless() for _ in range(2)]

        assert await (await served.peer(GET)).ended() == b""
        assert served.open == served.writing == 2
        for each in busy:
            await asyncio.wait_for(each.reader.readexactly(3 * len(CHUNK)), WITHIN_S)
            each.writer.close()
        await eventually(lambda: served.writing == 0)


async def test_http_connection_is_closed_when_its_response_is_not_read() -> None:
    async with serving() as served:
        peer = await served.endless()
        assert served.writing == 1

        await eventually(lambda: (served.open, served.writing) == (0, 0))
        peer.writer.close()


@pytest.mark.parametrize(
    "head",
    [
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    ],
)
async def test_http_request_with_a_body_is_refused_immediately(head: bytes) -> None:
    async with serving(HttpLimits()) as served:
        answer = await (await served.peer(head)).ended()

        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b"connection: close" in answer
        assert b'"this API is read-only: send the request without a body"' in answer
        await eventually(lambda: served.open == 0)


async def test_http_request_head_above_16_kib_is_refused() -> None:
    async with serving(HttpLimits()) as served:
        peer = await served.peer(GET[:-2] + b"X: " + b"x" * HttpLimits().head_bytes)

        assert (await peer.ended()).startswith(b"HTTP/1.1 400 ")
        await eventually(lambda: served.open == 0)


async def test_flood_of_http_connections_does_not_affect_kafka_clients(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path) as seen:
        assert (await seen.get("/livez")).status_code == 200
        bound, side = seen.broker.sockets.http, seen.broker.http
        assert bound is not None
        assert side is not None
        site = side._site
        assert site is not None
        half = []
        for _ in range(3 * HTTP_LIMITS.connections):
            _, writer = await asyncio.open_connection(*bound.getsockname())
            writer.write(GET[:9])
            half.append(writer)
        state = site._server._server.server_state
        await eventually(lambda: len(state.connections) == HTTP_LIMITS.connections)

        assert (await seen.get("/healthz")).status_code == 200, "the oldest of them made room"
        assert await seen.client.commit(GROUP, 1) == NONE
        for writer in half:
            writer.close()
