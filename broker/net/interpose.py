"""The layer that a test may insert between a broker's sockets and its APIs. `Broker` receives the
layer when it is created, and passes the layer to its server. Without a layer, requests cost nothing
extra."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from broker.net.connection import Connection
    from broker.net.listener import Listener
    from broker.net.request import ServedApi
    from broker.net.server import Server


class Interpose(Protocol):
    """A layer that a test inserts. It replaces the table of APIs and the connection objects of a
    broker."""

    def served(self, served: Mapping[int, ServedApi]) -> Mapping[int, ServedApi]:
        """Replaces the table of served APIs. ``served`` is the original table."""

    def connection(self, server: Server, listener: Listener) -> Connection: ...
