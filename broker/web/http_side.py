"""The HTTP part of a broker. It samples the broker and computes verdicts from the start on. The
HTTP server starts at the first connection.

The import of the HTTP libraries takes as long as the start of a broker, and needs a quarter of a
broker's memory. Therefore a thread imports them when the first connection arrives. During the
import, the event loop serves Kafka's clients.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

from broker.metrics.sources import Sources

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.secured import Secured
    from broker.web.site import Pages, Site


class HttpSide:
    """The HTTP part of one broker on a listening socket. ``host`` is the host of ``http.listener``.
    When the HTTP server has started, ``opened`` is called with the server's pages."""

    def __init__(
        self,
        bound: socket.socket,
        host: str,
        sources: Sources,
        secured: Secured,
        opened: Callable[[Pages], None],
    ) -> None:
        self._socket = bound
        self._host = host
        self._sources = sources
        self._secured = secured
        self._opened = opened
        self._site: Site | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Starts to take samples, to judge groups, and to accept HTTP connections."""
        self._sources.trends.start()
        self._sources.verdicts.start()
        self._task = self._sources.watchdog.task("http", self._open())

    async def stop(self) -> None:
        """Ends the wait for the first HTTP connection. If the server runs already, stops the server
        and its connections."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._site is not None:
            await self._site.stop()

    async def _open(self) -> None:
        try:
            await _readable(self._socket)
            site = await self._sources.time.in_thread(self._make)
        except Exception as error:  # noqa: BLE001 - `caught` counts and logs it
            self._sources.internal_errors.caught("http", error)
            self._socket.close()  # refuses the clients that wait
            return
        self._site = site
        self._opened(site.pages)
        site.start()

    def _make(self) -> Site:
        """Creates the site in a thread. The constructor reads only parts of the broker that never
        change."""
        from broker.web.site import Site

        return Site(self._socket, self._host, self._sources, self._secured)


async def _readable(bound: socket.socket) -> None:
    """Waits until a client connects to the socket. Does not accept the connection."""
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()
    loop.add_reader(bound, asked.set)
    try:
        await asked.wait()
    finally:
        loop.remove_reader(bound)
