"""The addresses of this broker for clients: one host and port per listener
(``advertised.listeners``).

The CLI's commands read the broker's HTTP address from ``http.advertised.listener``.

The port of a listener that is configured with port 0 is known only when the listener listens; its
address is not advertised earlier.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.config.config import Config
from broker.config.listeners import Endpoint
from broker.net.request import Request
from broker.topics.registry import BrokerNode


class Advertised:
    """The addresses of this broker in the responses to Metadata, DescribeCluster and
    FindCoordinator."""

    def __init__(self, config: Config, node_id: int) -> None:
        self._config = config
        self._node_id = node_id
        self.endpoints: list[Endpoint] = []
        """This broker's endpoints in the order of the listeners."""
        self._nodes: dict[str, BrokerNode] = {}
        self.http = "off"
        """The HTTP address for commands in the form HOST:PORT; "off" if the broker does not serve
        HTTP."""

    def serving_http(self, bound: str | None) -> None:
        """Sets the advertised HTTP address from the bound address; ``bound`` is None if the broker
        does not serve HTTP."""
        if bound is not None:
            self.http = self._config["http.advertised.listener"] or bound

    def listening(self, ports: Sequence[int]) -> None:
        """Sets the advertised endpoints; ``ports`` are the bound ports of the listeners."""
        self.endpoints = self._config.advertised(ports)
        rack = self._config["broker.rack"]
        self._nodes = {
            endpoint.name: BrokerNode(self._node_id, endpoint.host, endpoint.port, rack)
            for endpoint in self.endpoints
        }

    def listener(self, request: Request) -> str:
        """Returns the name of the listener that received ``request``."""
        return request.connection.listener.name

    def node(self, listener: str) -> BrokerNode:
        """Returns this broker's id and its address on a listener."""
        return self._nodes[listener]

    @property
    def first(self) -> tuple[str, int]:
        """Returns the host and port of this broker's first listener."""
        return self.endpoints[0].host, self.endpoints[0].port
