"""Composes the HTTP part of a broker: routes, authentication, live events and the server. This
module is imported only after the broker listens, since its import takes longer than the start of a
broker."""

from __future__ import annotations

import asyncio
import socket
from functools import cache, partial
from typing import TYPE_CHECKING, Any, cast

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from broker.config.http_settings import is_protected, ways_in
from broker.metrics.exposition import render
from broker.metrics.sources import Sources
from broker.web.cluster_api import routes as cluster_routes
from broker.web.compression import Compressed
from broker.web.health import health, is_loading
from broker.web.http import HttpServer, scrapes, timed
from broker.web.http_api import routes
from broker.web.http_guard import Hosts
from broker.web.live.events import Live
from broker.web.live.rows import find
from broker.web.openapi import routes as openapi_routes
from broker.web.page_files import PageFiles
from broker.web.readers.authentication import Authenticated, HttpAccess
from broker.web.readers.reader import reader_of
from broker.web.readers.users import ListenerUsers, plain_users, scram_users
from broker.web.runbook_pages import Runbooks
from broker.web.share_api import routes as share_routes
from broker.web.transactions_api import routes as transaction_routes

if TYPE_CHECKING:
    from broker.net.connection import Connection
    from broker.net.tls.handshakes import Handshakes
    from broker.net.tls.listener import TlsListener
    from broker.net.tls.wrapped import Wrapped
    from broker.secured import Secured
    from broker.web.http_connection import BoundedConnection


class Pages:
    """The page, /metrics, the probes and /api of one broker."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self.live = Live(partial(find, sources), sources.time.real, sources.slicer)

    def routes(self) -> list[Route]:
        """Returns all routes. Handlers of restricted data check the rights of the reader that
        `reader_of` returns."""
        sources = self._sources
        return [
            scrapes(lambda: render(sources)),
            *probes(sources),
            *_page_files().routes(),
            *Runbooks(sources).routes(),
            *routes(sources),
            *share_routes(sources),
            *transaction_routes(sources),
            *cluster_routes(sources),
            *openapi_routes(),
            Route("/api/live", self.live),
        ]

    def application(self) -> ASGIApp:
        sources = self._sources
        served = Starlette(routes=self.routes())
        return timed(Compressed(served, sources.time), sources.watchdog)

    async def stop(self) -> None:
        await self.live.stop()


@cache
def _page_files() -> PageFiles:
    """Returns the page's files. All brokers of a process share them, since compressing them takes
    40 ms."""
    return PageFiles()


def _access(sources: Sources, secured: Secured) -> HttpAccess:
    config = sources.config
    assert secured.users is not None
    scram = scram_users(config, secured.users)
    users = ListenerUsers(plain_users(config), scram, sources.time.real)
    return HttpAccess(
        ways_in(config),
        config["http.metrics.token"],
        users,
        lambda: secured.authorizer,
        config["connection.failed.authentication.delay.ms"],
        sources.logins,
    )


def _encrypted(
    tls: TlsListener, handshakes: Handshakes, connection: BoundedConnection
) -> asyncio.Protocol:
    # The TLS layer needs only principal and address of a Kafka connection, which this one has.
    return tls.layer(cast("Wrapped", connection), cast("Connection", connection), handshakes)


class Site:
    """The pages of one broker, served on a bound socket. ``host`` is the host of
    ``http.listener``."""

    def __init__(self, bound: socket.socket, host: str, sources: Sources, secured: Secured) -> None:
        self.pages = Pages(sources)
        names = [endpoint.host for endpoint in sources.advertised.endpoints]
        hosts = Hosts(host, [socket.gethostname(), *names], sources.config["http.allowed.hosts"])
        application = self.pages.application()
        if is_protected(sources.config):
            application = Authenticated(application, _access(sources, secured), sources.time.real)
        tls = None if secured.http is None else secured.http.tls
        layer = None if tls is None else partial(_encrypted, tls, sources.server.handshakes)
        self._server = HttpServer(bound, application, hosts, sources.time.real, layer=layer)

    def start(self) -> None:
        self._server.start()

    async def stop(self) -> None:
        """Stops the server and its connections. The caller must first disconnect the clients of
        /api/live."""
        await self._server.stop()


def probes(sources: Sources) -> list[Route]:
    """Returns the routes of the probes:

    - `/livez`: must the broker be restarted?
    - `/readyz`: can clients use the broker?
    - `/healthz`: the state and its reason.

    A loading broker is live but not ready: a restart would begin the load again. A broker with a
    log that accepts no writes is live and ready, since it still serves reads, heartbeats and all
    other logs; `/healthz` then returns 503. A broker that stops because it can't continue is not
    live. If authentication is enabled, anonymous readers get the state without the reason.
    """

    async def livez(request: Request) -> Response:
        reason = sources.fatal()
        if reason is None:
            return JSONResponse({"live": True})
        return _health_response(request, {"live": False}, {"reason": reason}, 503)

    async def readyz(request: Request) -> Response:
        ready = sources.fatal() is None and not is_loading(sources)
        return _health_response(request, {"ready": ready}, health(sources), 200 if ready else 503)

    async def healthz(request: Request) -> Response:
        report = health(sources)
        state = {"state": report["state"]}
        return _health_response(request, state, report, 200 if report["state"] == "ready" else 503)

    return [Route("/livez", livez), Route("/readyz", readyz), Route("/healthz", healthz)]


def _health_response(
    request: Request, to_all: dict[str, Any], more: dict[str, Any], status: int
) -> Response:
    body = to_all if reader_of(request.scope).is_stranger else {**to_all, **more}
    return JSONResponse(body, status)
