"""Where clients reach this broker: one host and port for each listener (``advertised.listeners``).

Commands find its HTTP in ``http.advertised.listener``, which a described broker has too.

A listener on port 0 has a port only once it listens: until then there is nothing to advertise.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.config.config import Config
from broker.config.listeners import Endpoint
from broker.net.request import Request
from broker.topics.registry import BrokerNode


class Advertised:
    """This broker's address in the answers of Metadata, DescribeCluster and FindCoordinator."""

    def __init__(self, config: Config, node_id: int) -> None:
        self._config = config
        self._node_id = node_id
        self.endpoints: list[Endpoint] = []
        """By listener, in their order."""
        self._nodes: dict[str, BrokerNode] = {}
        self.http = "off"
        """Where commands find HTTP, HOST:PORT; or off."""

    def serving_http(self, bound: str | None) -> None:
        """HTTP has got this address, or None."""
        if bound is not None:
            self.http = self._config["http.advertised.listener"] or bound

    def listening(self, ports: Sequence[int]) -> None:
        """The listeners have got these ports."""
        self.endpoints = self._config.advertised(ports)
        rack = self._config["broker.rack"]
        self._nodes = {
            endpoint.name: BrokerNode(self._node_id, endpoint.host, endpoint.port, rack)
            for endpoint in self.endpoints
        }

    def listener(self, request: Request) -> str:
        """The name of the listener through which a request came."""
        return request.connection.listener.name

    def node(self, listener: str) -> BrokerNode:
        """This broker on a listener."""
        return self._nodes[listener]

    @property
    def first(self) -> tuple[str, int]:
        """Host and port of the first listener."""
        return self.endpoints[0].host, self.endpoints[0].port
