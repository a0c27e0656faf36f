"""Attaches a meter to each request while a client quota is set.

When the first quota is set, the routes get a factory of meters. When the last quota is removed, the
factory is removed. Without quotas, requests have no meter.
"""

from __future__ import annotations

from functools import partial

from broker.apis.fetch.sessions import FetchSessions
from broker.apis.throttling.measures import Measures
from broker.net.connection import Connection
from broker.net.limits.address_rates import AddressRates
from broker.net.limits.throttles import Throttles
from broker.net.server import Server
from broker.quotas.client_quotas import ClientQuotas, Kind


class Measuring:
    """Measures requests and connection rates while quotas are set. Begins when quotas are set, and
    stops when they are removed."""

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
        quotas.watch(self._quotas_changed)

    def _quotas_changed(self) -> None:
        new_meter = None
        if self.quotas.bound_clients:
            from broker.apis.throttling.meter import Meter

            new_meter = partial(Meter, self._measures)
        for route in self._routes:
            route.new_meter = new_meter
        self._server.address_rates = self._rates if self.quotas.bound_addresses else None
        self.throttles.look_again(self._allowed)

    def _allowed(self, connection: Connection, kind: str) -> float | None:
        shares = self.quotas.shares_of(connection.principal.name, connection.client_id)
        return shares.allowed(Kind(kind))
