"""The addresses of a tested broker: bound for the life of the process, listened on by each run.

A socket that is bound and does not listen keeps its port, and connections to it are refused. Linux
lets each run bind the same address beside it, and listen there, as both have SO_REUSEADDR.
"""

from __future__ import annotations

import socket

from broker.config.config import Config
from broker.config.listeners import Endpoint, parse_host_and_port
from broker.net.limits import limits_of
from broker.net.sockets import CannotListen, bind, taken

_ADVICE = "free it or choose another with --listen; port 0 takes a free one"
_ADVICE_HTTP = "choose another with --http HOST:PORT; port 0 takes a free one"


class Addresses:
    """Where Kafka's clients and the test itself connect."""

    def __init__(self, config: Config) -> None:
        """Takes every address. Raises CannotListen, and none is held then."""
        self._held: list[socket.socket] = []
        self.listeners: list[Endpoint] = []
        """As in ``listeners``, with the ports that were had."""
        self._limits = limits_of(config)
        try:
            for each in config.listeners:
                held = self._take(each.host, each.port, _ADVICE)
                self.listeners.append(each._replace(port=held.getsockname()[1]))
            host, port = parse_host_and_port(config["http.listener"])
            self.http_socket = self._take(host, port, _ADVICE_HTTP)
            """Bound; the server of HTTP listens on it for as long as the process lives."""
            # The address must be ours: another may have bound it too, and listen.
            for each in self.listeners:
                self._try(each)
        except CannotListen:
            self.close()
            raise
        self.http = Endpoint("", host, self.http_socket.getsockname()[1]).address
        """HOST:PORT."""

    @property
    def bootstrap_servers(self) -> str:
        """What a client is given."""
        return self.listeners[0].address

    @property
    def settings(self) -> dict[str, str]:
        """The settings with which a run of the broker has these addresses."""
        named = [f"{each.name}://{each.address}" for each in self.listeners]
        return {"listeners": ",".join(named), "http.listener": "off"}

    def close(self) -> None:
        """Gives all of them up."""
        for each in self._held:
            each.close()

    def _take(self, host: str, port: int, advice: str) -> socket.socket:
        try:
            held = bind(host, port, self._limits)
        except OSError as error:
            raise taken(Endpoint("", host, port).address, error, advice) from None
        self._held.append(held)
        return held

    def _try(self, endpoint: Endpoint) -> None:
        try:
            with bind(endpoint.host, endpoint.port, self._limits) as tried:
                tried.listen(1)
        except OSError as error:
            raise taken(endpoint.address, error, _ADVICE) from None
