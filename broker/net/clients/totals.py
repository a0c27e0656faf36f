"""Counts requests and bytes by client id and client host, for `muster top` and `/api/clients`.

Each connection has its own counters. The sums by client are computed on demand. The sums of closed
connections are kept for a limited number of clients.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from broker.net.peer import display_client_id
from protocol.slotted import slotted

GONE_MAX = 1000
"""The broker keeps the sums of closed connections for at most this number of clients. It first
drops the client whose last connection closed the longest ago."""
SHOWN_MAX = 5000
"""The maximum number of clients in a list. One more row, without a name, has the sum of all other
clients."""

Client = tuple[str, str]
"""The client id, escaped as in log lines, and the client host."""


class Counted(Protocol):
    """The counters of one connection."""

    client_id: str
    client_host: str
    requests: int
    bytes_in: int
    bytes_out: int


@slotted
class Traffic:
    """The requests and bytes of one client, or of all clients."""

    connections: int = 0
    """The number of open connections."""
    requests: int = 0
    bytes_in: int = 0
    bytes_out: int = 0

    def add(self, other: Traffic | Counted) -> None:
        """Adds the requests and bytes of ``other``. Leaves ``connections`` unchanged."""
        self.requests += other.requests
        self.bytes_in += other.bytes_in
        self.bytes_out += other.bytes_out


class Clients:
    """The traffic of all clients since the process began."""

    def __init__(self) -> None:
        self.gone: dict[Client, Traffic] = {}
        """The total traffic of closed connections, by client. The client that closed a connection
        last is at the end."""
        self.total = Traffic()
        """The total traffic of the closed connections of all clients."""

    def closed(self, connection: Counted) -> None:
        """Adds the traffic of a connection that was closed."""
        client = _client(connection)
        traffic = self.gone.pop(client, None) or Traffic()
        traffic.add(connection)
        self.total.add(connection)
        self.gone[client] = traffic
        if len(self.gone) > GONE_MAX:
            del self.gone[next(iter(self.gone))]

    def all(self, connections: Iterable[Counted]) -> Traffic:
        """Returns the total traffic of all closed connections and of ``connections``, which are all
        open connections."""
        total = Traffic()
        total.add(self.total)
        for connection in connections:
            total.connections += 1
            total.add(connection)
        return total

    def by_client(self, connections: Iterable[Counted]) -> dict[Client, Traffic]:
        """Returns the traffic by client. The key ``("", "")`` has the sum of the clients beyond
        SHOWN_MAX.

        ``connections`` are all open connections.
        """
        found: dict[Client, Traffic] = {}
        for connection in connections:
            traffic = _of(found, _client(connection))
            traffic.connections += 1
            traffic.add(connection)
        for client, traffic in self.gone.items():
            _of(found, client).add(traffic)
        return found


def _of(found: dict[Client, Traffic], client: Client) -> Traffic:
    if client not in found and len(found) >= SHOWN_MAX:
        client = ("", "")
    return found.setdefault(client, Traffic())


def _client(connection: Counted) -> Client:
    return display_client_id(connection.client_id), connection.client_host
