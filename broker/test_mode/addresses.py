"""The addresses of a tested broker: bound for the life of the process, listened on by each run.

A bound socket that does not listen keeps its port, and its connections are refused. Linux lets a
run bind the same address again and listen there, if both sockets have SO_REUSEADDR; while no run
has it ours is without, so that no other process gets the port. Other systems allow no second
socket: there a run uses the port itself, and this module binds it again after the run.
"""

from __future__ import annotations

import socket
import sys
from contextlib import suppress

from broker.config.config import Config
from broker.config.listeners import Endpoint, parse_host_and_port
from broker.net.limits.connections import limits_of
from broker.net.sockets import CannotListen, bind, taken

_BOUND_TWICE = sys.platform == "linux"
"""Whether two sockets may have one address while one of them at most listens."""
_ADVICE = "free it or choose another with --listen; port 0 chooses a free one"
_ADVICE_HTTP = "choose another with --http HOST:PORT; port 0 chooses a free one"


class Addresses:
    """Where Kafka's clients and the test itself connect."""

    def __init__(self, config: Config) -> None:
        """Takes every address. Raises CannotListen, and none is held then."""
        self._held: list[socket.socket] = []
        self.listeners: list[Endpoint] = []
        """As in ``listeners``, with the ports that were had."""
        self._limits = limits_of(config)
        host, port = parse_host_and_port(config["http.listener"])
        self.http_socket = self._take(host, port, _ADVICE_HTTP)
        """Bound; the server of HTTP listens on it for as long as the process lives."""
        self.http = Endpoint("", host, self.http_socket.getsockname()[1]).address
        """HOST:PORT."""
        try:
            for each in config.listeners:
                bound = self._take(each.host, each.port, _ADVICE)
                self._held.append(bound)
                self.listeners.append(each._replace(port=bound.getsockname()[1]))
            self.lend()
            for each in self.listeners:  # another may have bound it too, and listen
                self._try(each)
            self.hold()
        except CannotListen:
            self.close()
            raise

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients."""
        return self.listeners[0].address

    @property
    def settings(self) -> dict[str, str]:
        """The settings with which a run of the broker has these addresses."""
        named = [f"{each.name}://{each.address}" for each in self.listeners]
        return {"listeners": ",".join(named), "http.listener": "off"}

    def lend(self) -> None:
        """Lends the addresses to a run, until `hold`."""
        if _BOUND_TWICE:
            for each in self._held:
                each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        else:
            self._let_go()

    def hold(self) -> None:
        """No run has them: they are ours alone."""
        if _BOUND_TWICE:
            for each in self._held:
                each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
            return
        self._let_go()
        for endpoint in self.listeners:
            with suppress(OSError):  # another process has it; the next start reports that
                self._held.append(bind(endpoint.host, endpoint.port, self._limits))

    def close(self) -> None:
        """Gives all of them up."""
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
