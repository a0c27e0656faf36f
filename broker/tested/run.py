"""One run of a tested broker: from its start to its stop, or to its end without a stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.broker import Broker
from broker.config.config import Config
from broker.time import Time
from log.filesystem import FileSystem

if TYPE_CHECKING:
    from starlette.types import ASGIApp


class Run:
    """A `Broker` and what it holds; use from the event loop's thread."""

    def __init__(self, config: Config, fs: FileSystem | None, time: Time, http: str) -> None:
        """``http``: HOST:PORT of the server that serves the broker's pages."""
        self.broker = Broker(config, fs=fs, time=time)
        self._http = http
        self._pages: ASGIApp | None = None

    async def start(self) -> None:
        """Opens the data and accepts connections. Raises as `Broker.open` and `Broker.start`."""
        self.broker.open()
        await self.broker.start()

    async def stop(self) -> None:
        """Stops in order: everything is written down."""
        await self.broker.stop()

    def pages(self) -> ASGIApp:
        """The broker's own side of HTTP; it samples and judges from the first request on."""
        if self._pages is None:
            self._pages = self.broker.serve_pages(self._http).application()
        return self._pages
