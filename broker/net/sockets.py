"""The sockets that a broker listens on: all are bound before it touches its data.

A bound socket holds its address and refuses connections until it listens, so that no client waits
for a broker that still reads its logs. An address in use fails when it is bound. Only if another
process has bound it too and listens first, it fails when this one begins to listen.
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
    """An address cannot be had; the text is one sentence for the operator."""


def bind(host: str, port: int, limits: Limits) -> socket.socket:
    """A socket for a listener on ``host`` and ``port`` (0: a free one).

    OSError when the address cannot be had.
    """
    # One family a listener: "" and 0.0.0.0 are IPv4, :: is IPv6 with mapped IPv4 as in Java.
    infos = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, proto, _, address = infos[0]
    bound = socket.socket(family, kind, proto)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # accepted ones too
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
"""Makes the sockets; a simulated network has its own."""


class Sockets:
    """The sockets of one broker, from `bind` to `close`."""

    def __init__(self, config: Config, bind: Bind = bind) -> None:
        self._config = config
        self._bind = bind
        self.listeners: list[socket.socket] = []
        """One for each of ``listeners``, in their order."""
        self.http: socket.socket | None = None
        """None where ``http.listener`` is off, or its default is taken."""

    def bind(self) -> None:
        """Takes every address; CannotListen, and none is held, where one can't be had."""
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
        """Host and port of each listener as they were had; port 0 has become a free one."""
        return [each.getsockname()[:2] for each in self.listeners]

    def http_address(self) -> str | None:
        """HOST:PORT of the HTTP listener as written in a URL; None without HTTP."""
        if self.http is None:
            return None
        host, _ = parse_host_and_port(self._config["http.listener"])
        return Endpoint("", host, self.http.getsockname()[1]).address

    def listen(self) -> None:
        """Lets connections wait until they are accepted; raises CannotListen."""
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
        """Continues without HTTP and logs that, unless ``http.listener`` is set: a second broker on
        a machine."""
        refused = taken(where, error, _ADVICE_HTTP)
        if self._config.is_given("http.listener"):
            raise refused from None
        logger.warning("HTTP not served", reason=str(refused))

    def close(self) -> None:
        """Closes the bound sockets. Servers that accept connections hold their own copies."""
        for each in self.listeners:
            each.close()
        self.listeners.clear()
        if self.http is not None:
            self.http.close()
            self.http = None


_ADVICE = "free it or choose another with --listen"
_ADVICE_HTTP = "choose another with --http HOST:PORT, or --http off"


def taken(address: str, error: OSError, advice: str) -> CannotListen:
    """The error if ``address``, HOST:PORT, is not available; ``advice`` names the fix."""
    return CannotListen(f"can't listen on {address}: {error.strerror or error}; {advice}")
