"""The HTTP side put together: its routes, who may ask, live events, the charts' samples, verdicts.

Imported only once the broker listens: the stack takes longer to import than a broker to start.
"""

from __future__ import annotations

import socket
from functools import cache

from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp

from broker.metrics.exposition import render
from broker.metrics.sources import Sources
from broker.web.cluster_api import routes as cluster_routes
from broker.web.compression import Compressed
from broker.web.http import HttpServer, scrapes, timed
from broker.web.http_api import routes
from broker.web.http_guard import Hosts
from broker.web.live import Live
from broker.web.live_rows import find
from broker.web.page_files import PageFiles
from broker.web.probes import probes
from broker.web.runbook_pages import Runbooks
from broker.web.transactions_api import routes as transaction_routes


class Pages:
    """The page, /metrics, the probes and /api of one broker, for a server of HTTP."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self.live = Live(lambda watch: find(sources, watch), sources.time.real, sources.slicer)

    def application(self) -> ASGIApp:
        """What answers requests."""
        sources = self._sources
        served = Starlette(
            routes=[
                scrapes(lambda: render(sources)),
                *probes(sources),
                *_page_files().routes(),
                *Runbooks(sources).routes(),
                *routes(sources),
                *transaction_routes(sources),
                *cluster_routes(sources),
                Route("/api/live", self.live),
            ]
        )
        return timed(Compressed(served, sources.time), sources.watchdog)

    async def stop(self) -> None:
        """Lets those go who watch."""
        await self.live.stop()


@cache
def _page_files() -> PageFiles:
    """They are the same for all brokers of a process, and take 40 ms to pack."""
    return PageFiles()


class Site:
    """The pages of one broker on a bound socket.

    ``host`` is what ``http.listener`` names.
    """

    def __init__(self, bound: socket.socket, host: str, sources: Sources) -> None:
        self.pages = Pages(sources)
        names = [endpoint.host for endpoint in sources.advertised.endpoints]
        hosts = Hosts(host, [socket.gethostname(), *names], sources.config["http.allowed.hosts"])
        self._server = HttpServer(bound, self.pages.application(), hosts, sources.time.real)

    def start(self) -> None:
        """Begins to accept connections, in the running loop."""
        self._server.start()

    async def stop(self) -> None:
        """Ends the server and its connections; those who watch are let go before."""
        await self._server.stop()
