"""Faults that cut the links of a broker in a cluster: to its clients, to other brokers, to the
registry. When a link is cut, its connections are closed. Later requests on the link are handled
only when the link is restored, as TCP delivers delayed data."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from broker.test_mode.cluster.tested_cluster import (
    BROKERS,
    CLIENTS,
    PAUSE,
    REGISTRY,
    TestedCluster,
)
from broker.test_mode.faults import Fault
from broker.test_mode.requests.interposed import Interposed
from broker.test_mode.requests.rules import Filter, Gate
from protocol.messages.fetch import API as FETCH

if TYPE_CHECKING:
    from broker.apis.shared.services import Services
    from broker.net.connection import Connection
    from broker.net.request import Request

_FETCHER = "broker-{}-fetcher-"
"""The beginning of the client id in the fetch requests of a follower."""


class CutLink(Gate):
    """A gate on a cut link; it counts the requests that wait."""

    def __init__(self, fault: Fault, which: Filter) -> None:
        super().__init__("cut", which, {})
        self.fault = fault

    def meets(self, services: Services, request: Request) -> bool:
        if not self.is_of(request.connection, request.client_id):
            return False
        if not super().meets(services, request):
            return False
        self.fault.hits += 1
        return True

    def is_of(self, connection: Connection, client_id: str) -> bool:
        """Returns True if a request with this client id on this connection uses the cut link."""
        raise NotImplementedError


class FromBrokers(CutLink):
    """The link on which a broker receives requests of the brokers ``senders``."""

    def __init__(self, fault: Fault, which: Filter, senders: Collection[int]) -> None:
        super().__init__(fault, which)
        self._senders = senders

    def is_of(self, connection: Connection, client_id: str) -> bool:
        return connection.listener.is_inter_broker and any(
            client_id == str(each) or client_id.startswith(_FETCHER.format(each))
            for each in self._senders
        )


class FromClients(CutLink):
    """The link on which a broker receives requests of clients, on a listener that brokers do not
    use."""

    def is_of(self, connection: Connection, client_id: str) -> bool:  # noqa: ARG002
        return not connection.listener.is_inter_broker


def isolate(cluster: TestedCluster, broker_id: int, sides: Collection[str | int]) -> Fault:
    """Starts a fault that cuts the links of a broker to ``sides``: CLIENTS, BROKERS, REGISTRY, or
    the ids of other brokers."""
    fault = Fault("isolate", {"broker": broker_id, "from": [*sides]})
    tested = cluster.brokers[broker_id]
    if CLIENTS in sides:
        _begin(tested.interposed, FromClients(fault, Filter()))
    others = [each for each in cluster.brokers if each != broker_id]
    cut = others if BROKERS in sides else [each for each in others if each in sides]
    if cut:
        _begin(tested.interposed, FromBrokers(fault, Filter(), cut))
        for other in cut:
            _begin(cluster.brokers[other].interposed, FromBrokers(fault, Filter(), [broker_id]))
    if REGISTRY in sides:
        cluster.registry.cut(broker_id)
        fault.on_end(lambda: cluster.registry.restore(broker_id))
    return fault


def pause(cluster: TestedCluster, broker_id: int) -> Fault:
    """Starts a fault that suspends a broker as SIGSTOP does. Connections stay open, requests get no
    response, timers do not fire, and the broker does not renew its session in the registry."""
    fault = Fault(PAUSE, {"broker": broker_id})
    tested = cluster.brokers[broker_id]
    others = [each for each in cluster.brokers if each != broker_id]
    run = tested.run
    fault.on_end(lambda: cluster.registry.restore(broker_id))
    _begin(tested.interposed, FromClients(fault, Filter()), closes=False)
    _begin(tested.interposed, FromBrokers(fault, Filter(), others), closes=False)
    for other in others:
        gate = FromBrokers(fault, Filter(), [broker_id])
        _begin(cluster.brokers[other].interposed, gate, closes=False)
    cluster.registry.pause(broker_id)
    run.time.hold()
    fault.on_end(run.time.go_on)
    return fault


def hold_fetches(cluster: TestedCluster, leader_id: int, followers: Collection[int]) -> Fault:
    """Starts a fault in which the leader does not answer the fetch requests of ``followers``."""
    fault = Fault("shrink_isr", {"leader": leader_id, "brokers": [*followers]})
    gate = FromBrokers(fault, Filter(api=FETCH), followers)
    _begin(cluster.brokers[leader_id].interposed, gate)
    return fault


def _begin(interposed: Interposed, link: CutLink, *, closes: bool = True) -> None:
    """Cuts a link until its fault ends. Closes the link's connections unless ``closes`` is
    False."""
    interposed.begin(link)
    link.fault.on_end(link.finish)
    if closes:
        for connection in list(interposed.connections):
            if link.is_of(connection, connection.client_id):
                connection.abort()
