"""The addresses of this broker for clients: one host and port for each listener
(``advertised.listeners``).

It also has the HTTP address, which Muster's commands read from ``http.advertised.listener``. If a
listener is configured with port 0, its port is known only when it listens. Until then, it is not
advertised.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.config.config import Config
from broker.config.listeners import Endpoint
from broker.net.request import Request
from broker.topics.registry import BrokerNode


class Advertised:
    """The addresses of this broker that responses contain, such as the responses to Metadata,
    DescribeCluster and FindCoordinator."""

    def __init__(self, config: Config, node_id: int) -> None:
        self._config = config
        self._node_id = node_id
        self.endpoints: list[Endpoint] = []
        """The advertised endpoints of this broker, in the order of its listeners."""
        self._nodes: dict[str, BrokerNode] = {}
        self.http = "off"
        """The advertised HTTP address, in the form HOST:PORT; "off" if the broker does not serve
        HTTP."""

    def serving_http(self, bound: str | None) -> None:
        """Sets the advertised HTTP address. ``bound`` is the bound address; None if the broker does
        not serve HTTP."""
        if bound is not None:
            self.http = self._config["http.advertised.listener"] or bound

    def listening(self, ports: Sequence[int]) -> None:
        """Sets the advertised endpoints. ``ports`` are the bound ports of the listeners, in
        order."""
        self.endpoints = self._config.advertised(ports)
        rack = self._config["broker.rack"]
        self._nodes = {
            endpoint.name: BrokerNode(self._node_id, endpoint.host, endpoint.port, rack)
            for endpoint in self.endpoints
        }

    def listener(self, request: Request) -> str:
        """Returns the name of the listener on which ``request`` arrived."""
        return request.connection.listener.name

    def node(self, listener: str) -> BrokerNode:
        """Returns this broker's id and its advertised address on a listener."""
        return self._nodes[listener]

    @property
    def first(self) -> tuple[str, int]:
        """The advertised host and port of this broker's first listener."""
        return self.endpoints[0].host, self.endpoints[0].port
