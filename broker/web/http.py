"""The HTTP server, and `/metrics` for Prometheus. The server is starlette on uvicorn, in the
broker's event loop. The broker, not uvicorn, handles signals and logging. This module is imported
only after the broker listens, since its import takes longer than the start of a broker. Earlier
connections wait until the import is complete."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any, cast

import uvicorn
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from broker.loop.watchdog import Watchdog
from broker.metrics.seen_series import Sight, seen
from broker.time import Time
from broker.web.http_connection import HTTP_LIMITS, BoundedConnection, HttpLimits
from broker.web.http_guard import Guard, Hosts
from broker.web.readers.reader import reader_of

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
GRACE_S = 1
"""The number of seconds for which stopping the server waits for unfinished responses."""

Render = Callable[[], AsyncIterator[bytes]]


Layer = Callable[[BoundedConnection], asyncio.Protocol]


def _layered(
    layer: Layer, connection: Callable[..., BoundedConnection], **given: Any
) -> asyncio.Protocol:
    return layer(connection(**given))


class _QuietServer(uvicorn.Server):
    """A uvicorn server that leaves SIGTERM and SIGINT to the broker."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def timed(application: ASGIApp, watchdog: Watchdog) -> ASGIApp:
    """Returns an application that runs ``application``. The watchdog measures each piece of work
    for a request."""

    async def measured(scope: Scope, receive: Receive, send: Send) -> None:
        async def answer() -> None:
            await application(scope, receive, send)

        await watchdog.watched("http", answer())

    return measured


def scrapes(render: Render) -> Route:
    """Returns the route of `/metrics`; ``render`` yields its text."""

    async def metrics(request: Request) -> Response:
        reader, scrape = reader_of(request.scope), render()
        if not reader.sees_everything:
            sight = Sight(reader.sees_cluster, reader.sees_group, reader.sees_topic)
            scrape = seen(scrape, sight)
        return StreamingResponse(scrape, headers={"content-type": CONTENT_TYPE})

    return Route("/metrics", metrics)


class HttpServer:
    """The HTTP server of one broker on a bound socket."""

    def __init__(
        self,
        bound: socket.socket,
        application: ASGIApp,
        hosts: Hosts,
        time: Time,
        limits: HttpLimits = HTTP_LIMITS,
        *,
        with_verbs: bool = False,
        layer: Layer | None = None,
    ) -> None:
        """Creates the server. If ``with_verbs`` is True, the server also accepts requests with
        bodies, for /test. ``layer`` creates the layer between a socket and a connection, such as
        TLS."""
        self._socket = bound
        connection = partial(BoundedConnection, limits=limits, time=time)
        protocol = connection if layer is None else partial(_layered, layer, connection)
        config = uvicorn.Config(
            Guard(application, hosts, with_verbs=with_verbs),
            http=cast(type[asyncio.Protocol], protocol),
            h11_max_incomplete_event_size=limits.head_bytes,
            log_config=None,
            log_level="critical",
            access_log=False,
            lifespan="off",
            loop="none",
            ws="none",
            timeout_keep_alive=limits.idle_s,
            timeout_graceful_shutdown=GRACE_S,
        )
        self._server = _QuietServer(config)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(
            self._server.serve(sockets=[self._socket])
        )

    async def stop(self) -> None:
        """Closes the socket and its connections. Waits up to GRACE_S seconds for unfinished
        responses."""
        self._server.should_exit = True
        if self._task is not None:
            await self._task
        self._socket.close()
