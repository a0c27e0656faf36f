"""The addresses of a tested broker, which the process binds once and each run of the broker listens
on.

A bound socket that does not listen keeps its port and refuses connections. On Linux, a run binds
the same address with a second socket, if both sockets have SO_REUSEADDR. Between runs, SO_REUSEADDR
is off on the process's socket, so that no other process gets the port. Other systems do not allow a
second socket: there, the process closes its socket before a run, and binds the port again after the
run.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Mapping
from contextlib import suppress

from broker.config.config import Config
from broker.config.listeners import Endpoint, parse_host_and_port
from broker.net.limits.connections import limits_of
from broker.net.sockets import CannotListen, bind, taken

_BOUND_TWICE = sys.platform == "linux"
"""True if the operating system allows two sockets to be bound to the same address while only one of
them listens."""
_ADVICE = (
    "free the address, or choose another address with --listen; with port 0 the broker uses a free"
    " port"
)
_ADVICE_HTTP = (
    "choose another address with --http HOST:PORT; with port 0 the broker uses a free port"
)


class Addresses:
    """The bound addresses of the Kafka listeners and of HTTP."""

    def __init__(self, config: Config) -> None:
        """Binds every address. If an address is not available, closes all sockets and raises
        CannotListen."""
        self._held: list[socket.socket] = []
        self.listeners: list[Endpoint] = []
        """The endpoints in the setting ``listeners``, with the bound ports."""
        self._limits = limits_of(config)
        host, port = parse_host_and_port(config["http.listener"])
        self.http_socket = self._take(host, port, _ADVICE_HTTP)
        """A bound socket, on which the HTTP server listens until the process ends."""
        self.http = Endpoint("", host, self.http_socket.getsockname()[1]).address
        """The HTTP address in the form HOST:PORT."""
        try:
            for each in config.listeners:
                bound = self._take(each.host, each.port, _ADVICE)
                self._held.append(bound)
                self.listeners.append(each._replace(port=bound.getsockname()[1]))
            self.lend()
            for each in self.listeners:  # another process may be bound too, and listen
                self._try(each)
            self.hold()
        except CannotListen:
            self.close()
            raise

    @property
    def bootstrap_servers(self) -> str:
        """The address of the first listener, which clients use as bootstrap.servers."""
        return self.listeners[0].address

    @property
    def settings(self) -> dict[str, str]:
        """Returns the settings with which a broker listens at these addresses."""
        named = [f"{each.name}://{each.address}" for each in self.listeners]
        return {"listeners": ",".join(named), "http.listener": "off"}

    def lend(self) -> None:
        """Lets the tested broker listen on the addresses until `hold` is called."""
        if _BOUND_TWICE:
            for each in self._held:
                each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        else:
            self._let_go()

    def hold(self) -> None:
        """Reserves the addresses for this process again, after a broker that listened on them has
        ended."""
        if _BOUND_TWICE:
            for each in self._held:
                each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
            return
        self._let_go()
        for endpoint in self.listeners:
            with suppress(OSError):  # another process uses the port; the next start reports this
                self._held.append(bind(endpoint.host, endpoint.port, self._limits))

    def close(self) -> None:
        self._let_go()
        self.http_socket.close()

    def _let_go(self) -> None:
        for each in self._held:
            each.close()
        self._held.clear()

    def _take(self, host: str, port: int, advice: str) -> socket.socket:
        try:
            return bind(host, port, self._limits)
        except OSError as error:
            raise taken(Endpoint("", host, port).address, error, advice) from None

    def _try(self, endpoint: Endpoint) -> None:
        try:
            with bind(endpoint.host, endpoint.port, self._limits) as tried:
                tried.listen(1)
        except OSError as error:
            raise taken(endpoint.address, error, _ADVICE) from None


def bind_all(configs: Mapping[int, Config]) -> dict[int, Addresses]:
    """Binds the addresses of each broker of a process. If an address is not available, closes all
    sockets and raises CannotListen."""
    bound: dict[int, Addresses] = {}
    try:
        for broker_id, config in configs.items():
            bound[broker_id] = Addresses(config)
    except CannotListen:
        for each in bound.values():
            each.close()
        raise
    return bound
