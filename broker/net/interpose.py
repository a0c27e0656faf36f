"""The layer that a test may insert between a broker's sockets and its APIs.

`Broker` accepts a layer when it is created, and uses the layer when it creates its server. A broker
without a layer runs the same code as without this module, so that requests cost nothing extra.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from broker.net.connection import Connection
    from broker.net.listener import Listener
    from broker.net.request import ServedApi
    from broker.net.server import Server


class Interpose(Protocol):
    """Replacements for the table of APIs and for the connection objects."""

    def served(self, served: Mapping[int, ServedApi]) -> Mapping[int, ServedApi]:
        """Returns the rows of the table of APIs that this broker uses instead of the rows in
        ``served``."""

    def connection(self, server: Server, listener: Listener) -> Connection:
        """Creates the protocol object of one accepted socket."""
