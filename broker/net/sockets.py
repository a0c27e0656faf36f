"""The sockets on which a broker listens.

The broker binds all sockets before it opens its data. A bound socket reserves its address, and
refuses connections until the broker starts to listen. So clients get an error at once while the
broker reads its logs. An address in use normally causes an error at the bind. If another process
has bound the same address and listens first, the error occurs when the broker starts to listen.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import replace

import structlog

from broker.config.config import Config
from broker.config.listeners import Endpoint, parse_host_and_port
from broker.net.limits.connections import Limits, limits_of

logger = structlog.get_logger(__name__)


class CannotListen(Exception):
    """Raised if an address is not available. The exception's text is a sentence for the
    operator."""


def bind(host: str, port: int, limits: Limits) -> socket.socket:
    """Returns a socket that is bound to ``host`` and ``port`` (0: any free port).

    Raises OSError if the address is not available.
    """
    # One address family per listener: "" and 0.0.0.0 are IPv4; :: is IPv6 with mapped IPv4 as in
    # Java.
    infos = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, proto, _, address = infos[0]
    bound = socket.socket(family, kind, proto)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Accepted sockets inherit this option.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, host != "::")
        if limits.receive_buffer_bytes != -1:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, limits.receive_buffer_bytes)
        if limits.send_buffer_bytes != -1:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, limits.send_buffer_bytes)
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    return bound


Bind = Callable[[str, int, Limits], socket.socket]
"""A function that binds a socket; a simulated network replaces this function."""


class Sockets:
    """The sockets of one broker."""

    def __init__(self, config: Config, bind: Bind = bind) -> None:
        self._config = config
        self._bind = bind
        self.listeners: list[socket.socket] = []
        """The sockets for the setting ``listeners``, in the same order."""
        self.http: socket.socket | None = None
        """The HTTP socket; None if ``http.listener`` is off, or if it is not set and its default
        address is in use."""

    def bind(self) -> None:
        """Binds every address. If an address is not available, closes all sockets and raises
        CannotListen."""
        limits = limits_of(self._config)
        try:
            for listener in self._config.listeners:
                try:
                    self.listeners.append(self._bind(listener.host, listener.port, limits))
                except OSError as error:
                    raise taken(listener.address, error, _ADVICE) from None
            where = self._config["http.listener"]
            if where != "off":
                self._bind_http(where, limits)
        except CannotListen:
            self.close()
            raise

    def _bind_http(self, where: str, limits: Limits) -> None:
        host, port = parse_host_and_port(where)
        as_the_system_has_them = replace(limits, receive_buffer_bytes=-1, send_buffer_bytes=-1)
        try:
            self.http = self._bind(host, port, as_the_system_has_them)
        except OSError as error:
            self._without_http(where, error)

    def addresses(self) -> list[tuple[str, int]]:
        """Returns the host and bound port of each listener. For a configured port 0, the port is
        the one that the system chose."""
        return [each.getsockname()[:2] for each in self.listeners]

    def http_address(self) -> str | None:
        """Returns HOST:PORT of the HTTP listener in the form for a URL; None if the broker does not
        serve HTTP."""
        if self.http is None:
            return None
        host, _ = parse_host_and_port(self._config["http.listener"])
        return Endpoint("", host, self.http.getsockname()[1]).address

    def listen(self) -> None:
        """Starts to listen; connections wait until they are accepted. Raises CannotListen."""
        backlog = self._config["socket.listen.backlog.size"]
        for bound, address in zip(self.listeners, self.addresses(), strict=True):
            try:
                bound.listen(backlog)
            except OSError as error:
                raise taken(Endpoint("", *address).address, error, _ADVICE) from None
        where = self.http_address()
        if self.http is not None and where is not None:
            try:
                self.http.listen()
            except OSError as error:
                self.http.close()
                self.http = None
                self._without_http(where, error)

    def _without_http(self, where: str, error: OSError) -> None:
        """Logs that the broker runs without HTTP, because the HTTP address is in use. Raises
        CannotListen instead if ``http.listener`` is set. With default settings, the second broker
        on a machine runs without HTTP."""
        refused = taken(where, error, _ADVICE_HTTP)
        if self._config.is_given("http.listener"):
            raise refused from None
        logger.warning("HTTP not served", reason=str(refused))

    def close(self) -> None:
        """Closes the bound sockets. The servers that accept connections use copies of these
        sockets."""
        for each in self.listeners:
            each.close()
        self.listeners.clear()
        if self.http is not None:
            self.http.close()
            self.http = None


_ADVICE = "free the address or choose another one with --listen"
_ADVICE_HTTP = "choose another address with --http HOST:PORT, or disable HTTP with --http off"


def taken(address: str, error: OSError, advice: str) -> CannotListen:
    """Creates the error for an address in the form HOST:PORT that is not available; ``advice``
    names the fix."""
    return CannotListen(f"can't listen on {address}: {error.strerror or error}; {advice}")
