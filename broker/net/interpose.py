"""The layer that a test may insert between a broker's sockets and its APIs.

`Broker` accepts one when it is created, and uses it while it makes its server. Requests cost
nothing extra: a broker without one runs the same code as without this module.
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
    """See the module."""

    def served(self, served: Mapping[int, ServedApi]) -> Mapping[int, ServedApi]:
        """The rows by which requests are handled, in place of those of the APIs themselves."""

    def connection(self, server: Server, listener: Listener) -> Connection:
        """The protocol object of one accepted socket."""
