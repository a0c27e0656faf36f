"""Quotas put to work: routes measure their requests while there is a quota of any client.

A broker without one runs the code that it would run if this room did not exist: the class of its
requests and its handlers are changed with the first quota, and changed back with the last.
"""

from __future__ import annotations

from broker.apis.fetch.sessions import FetchSessions
from broker.apis.throttling.measures import Measures
from broker.net.connection import Connection
from broker.net.limits.address_rates import AddressRates
from broker.net.limits.throttles import Throttles
from broker.net.request import Handler, Request, Route
from broker.net.server import Server
from broker.quotas.client_quotas import ClientQuotas, Kind


class Measuring:
    """See the module."""

    def __init__(
        self,
        quotas: ClientQuotas,
        server: Server,
        fetch_sessions: FetchSessions,
    ) -> None:
        self.quotas = quotas
        self._server, self._rates = server, AddressRates(quotas)
        self.throttles = server.throttles = Throttles(quotas.time)
        self._measures = Measures(quotas, self.throttles, fetch_sessions)
        self._routes = list(server.routes.values())
        self._plain: dict[Route, Handler] = {}
        """The handlers in whose place measured ones are."""
        quotas.watch(self._quotas_changed)

    def _quotas_changed(self) -> None:
        if self.quotas.bound_clients:
            self._measure()
        else:
            self._measure_no_more()
        self._server.address_rates = self._rates if self.quotas.bound_addresses else None
        self.throttles.look_again(self._allowed)

    def _measure(self) -> None:
        if self._plain:
            return
        from broker.apis.throttling.measured_request import MeasuredRequest, measured

        request_class: type[Request] = type(
            "MeasuredRequest", (MeasuredRequest,), {"__slots__": (), "measures": self._measures}
        )
        for route in self._routes:
            self._plain[route] = route.handle
            route.handle = measured(route.handle)
            route.request_class = request_class

    def _measure_no_more(self) -> None:
        for route, handle in self._plain.items():
            route.handle = handle
            route.request_class = Request
        self._plain.clear()

    def _allowed(self, connection: Connection, kind: str) -> float | None:
        shares = self.quotas.shares_of(connection.principal.name, connection.client_id)
        return shares.allowed(Kind(kind))
