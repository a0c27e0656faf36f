"""The layer that a test may insert between a broker's sockets and its APIs.

`Broker` accepts one when it is created, and uses it when it makes its server. Requests cost nothing
extra: without a layer, the broker runs the same code as without this module.
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
    """The replacements for the table of APIs and for the connections."""

    def served(self, served: Mapping[int, ServedApi]) -> Mapping[int, ServedApi]:
        """The rows that handle requests, in place of the APIs' own rows."""

    def connection(self, server: Server, listener: Listener) -> Connection:
        """The protocol object of one accepted socket."""
