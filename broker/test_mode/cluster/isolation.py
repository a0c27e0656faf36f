"""Faults of the links of a broker in a cluster: to its clients, to other brokers, to the registry.

On a cut link the connections are closed, and later requests get no response until the link is
restored; then they are handled, as TCP delivers what it could not deliver before.
"""

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
from broker.test_mode.requests.interposed import Interposed, TestedConnection
from broker.test_mode.requests.rules import Filter, Gate
from protocol.messages.fetch import API as FETCH

if TYPE_CHECKING:
    from broker.apis.shared.services import Services
    from broker.net.request import Request

_FETCHER = "broker-{}-fetcher-"
"""The beginning of the client id in the fetch requests of a follower."""


class FromBrokers(Gate):
    """A gate for the requests of the brokers ``senders``."""

    def __init__(self, which: Filter, senders: Collection[int]) -> None:
        super().__init__("cut", which, {})
        self._senders = senders

    def meets(self, services: Services, request: Request) -> bool:
        """Implements `Rule.meets`."""
        if not request.connection.listener.is_inter_broker:
            return False
        return self.is_of_sender(request.client_id) and super().meets(services, request)

    def is_of_sender(self, client_id: str) -> bool:
        """Returns True if a broker whose requests the gate holds has this client id."""
        return any(
            client_id == str(each) or client_id.startswith(_FETCHER.format(each))
            for each in self._senders
        )


class FromClients(Gate):
    """A gate for the requests of clients, which use another listener than the brokers."""

    def __init__(self) -> None:
        super().__init__("cut", Filter(), {})

    def meets(self, services: Services, request: Request) -> bool:
        """Implements `Rule.meets`."""
        return not request.connection.listener.is_inter_broker and super().meets(services, request)


def isolate(cluster: TestedCluster, broker_id: int, sides: Collection[str | int]) -> Fault:
    """Starts a fault that cuts the links from a broker to ``sides``: CLIENTS, BROKERS, REGISTRY, or
    the ids of other brokers."""
    fault = Fault("isolate", {"broker": broker_id, "from": [*sides]})
    tested = cluster.brokers[broker_id]
    if CLIENTS in sides:
        _begin(tested.interposed, FromClients(), fault, of_brokers=False)
    others = [each for each in cluster.brokers if each != broker_id]
    cut = others if BROKERS in sides else [each for each in others if each in sides]
    if cut:
        _begin(tested.interposed, FromBrokers(Filter(), cut), fault)
        for other in cut:
            gate = FromBrokers(Filter(), [broker_id])
            _begin(cluster.brokers[other].interposed, gate, fault)
    if REGISTRY in sides:
        cluster.registry.cut(broker_id)
        fault.on_end(lambda: cluster.registry.restore(broker_id))
    return fault


def pause(cluster: TestedCluster, broker_id: int) -> Fault:
    """Starts a fault that suspends a broker as SIGSTOP does: connections stay open, requests get no
    response, timers do not fire, and the session in the registry is not renewed."""
    fault = Fault(PAUSE, {"broker": broker_id})
    tested = cluster.brokers[broker_id]
    others = [each for each in cluster.brokers if each != broker_id]
    run = tested.run
    fault.on_end(lambda: cluster.registry.restore(broker_id))
    _begin(tested.interposed, FromClients(), fault, of_brokers=False, closes=False)
    _begin(tested.interposed, FromBrokers(Filter(), others), fault, closes=False)
    for other in others:
        gate = FromBrokers(Filter(), [broker_id])
        _begin(cluster.brokers[other].interposed, gate, fault, closes=False)
    cluster.registry.pause(broker_id)
    run.time.hold()
    fault.on_end(run.time.go_on)
    return fault


def hold_fetches(cluster: TestedCluster, leader_id: int, followers: Collection[int]) -> Fault:
    """Starts a fault that holds the fetch requests of followers at a leader."""
    fault = Fault("shrink_isr", {"leader": leader_id, "brokers": [*followers]})
    gate = FromBrokers(Filter(api=FETCH), followers)
    _begin(cluster.brokers[leader_id].interposed, gate, fault)
    return fault


def _begin(
    interposed: Interposed,
    gate: FromBrokers | FromClients,
    fault: Fault,
    *,
    of_brokers: bool = True,
    closes: bool = True,
) -> None:
    """Begins a gate, which ends with the fault, and closes the connections that it affects, unless
    ``closes`` is false."""
    interposed.begin(gate)
    fault.on_end(gate.finish)
    if not closes:
        return
    for connection in list(interposed.connections):
        if connection.listener.is_inter_broker is of_brokers and _is_held(gate, connection):
            connection.abort()


def _is_held(gate: FromBrokers | FromClients, connection: TestedConnection) -> bool:
    return isinstance(gate, FromClients) or gate.is_of_sender(connection.client_id)
