"""A listener: its security settings, and the state that its connections share.

When the broker starts, it creates one `Listener` for each entry of ``listeners``. Each connection
refers to its listener.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.config.http_settings import http_endpoint
from broker.config.listeners import Endpoint

if TYPE_CHECKING:
    from broker.config.config import Config
    from broker.net.connection import Connection
    from broker.net.tls.listener import TlsListener


class Listener:
    """One listener of the broker."""

    def __init__(self, endpoint: Endpoint, *, is_inter_broker: bool = False) -> None:
        self.endpoint = endpoint
        """The configured address of the listener; its port may be 0."""
        self.name = endpoint.name
        self.is_inter_broker = is_inter_broker
        """True if the other brokers of the cluster connect to this listener."""
        self.before_login: Callable[[Connection], asyncio.Protocol] | None = None
        """A function that creates the protocol for a connection until its peer has logged in; None
        if no login is required."""

        self.tls: TlsListener | None = None
        """The TLS settings of the listener's connections; None for a listener without TLS."""

    def first_protocol(self, connection: Connection) -> asyncio.Protocol:
        """Returns the protocol that first receives a connection's bytes: the TLS layer, the login,
        or the connection itself."""
        first = connection if self.before_login is None else self.before_login(connection)
        if self.tls is None:
            return first
        return self.tls.layer(first, connection, connection.server.handshakes)

    @property
    def protocol(self) -> str:
        """The name of the security protocol, such as SASL_SSL."""
        return self.endpoint.protocol


def http_listener(config: Config) -> Listener | None:
    """Returns the HTTP listener, whose connections the HTTP server accepts; None if the broker does
    not serve HTTP."""
    endpoint = http_endpoint(config)
    return None if endpoint is None else Listener(endpoint)


def listeners_of(config: Config) -> list[Listener]:
    """Returns the listeners in the order of the setting ``listeners``."""
    between = config.inter_broker_listener
    return [
        Listener(endpoint, is_inter_broker=endpoint.name == between)
        for endpoint in config.listeners
    ]
