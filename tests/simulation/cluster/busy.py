"""A cluster in use: topics of three replicas, producers, consumers, groups, and all that fails."""

from __future__ import annotations

from contextlib import AbstractContextManager

from tests.simulation.cluster.checkers import ClusterCheckers
from tests.simulation.cluster.client import ClusterClient
from tests.simulation.cluster.clients import Consumer, OffsetsKeeper, Producer, TopicMaker
from tests.simulation.cluster.faults import ClusterFaults
from tests.simulation.cluster.machine import BrokerMachine
from tests.simulation.cluster.truth import PartitionTruth
from tests.simulation.cluster.world import ClusterWorld

TOPIC = "ledger"
PARTITIONS = 3
COPIES = 3


class BusyCluster(ClusterWorld):
    """See the module; everything from one seed."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.truths = [PartitionTruth(TOPIC, index) for index in range(PARTITIONS)]
        self.faults = ClusterFaults(self, self.fork())
        self.flushes = self.chance.random() < 0.5
        """Each record is flushed before it is acknowledged: power may fail."""
        if self.flushes:
            for machine in self.machines:
                machine.settings["log.flush.interval.messages"] = "1"
        else:
            self.faults.worth = {**self.faults.worth, "power": 0}
        self.checkers = ClusterCheckers(self)
        self._served: dict[str, int] = {}
        """How often each client had got what it asked for when the rest began."""
        self.populate(self._clients())
        self.faults.begin()

    def _clients(self) -> list[ClusterClient]:
        maker = TopicMaker(self, "maker", "10.1.0.1", self.fork(), {TOPIC: PARTITIONS}, COPIES)
        clients: list[ClusterClient] = [maker]
        for number, truth in enumerate(self.truths):
            place, host = f"{truth.topic}-{truth.partition}", f"10.2.{number}."
            clients += [
                Producer(self, f"once to {place}", f"{host}1", self.fork(), truth, once=True),
                Producer(self, f"some to {place}", f"{host}2", self.fork(), truth, once=False),
                Consumer(self, f"reads {place}", f"{host}3", self.fork(), truth),
            ]
        clients += [
            OffsetsKeeper(self, f"keeper-{number}", f"10.3.0.{number}", self.fork(), TOPIC)
            for number in range(3)
        ]
        return clients

    def watched(self) -> AbstractContextManager[None]:
        return self.checkers.watching()

    def leads(self, node_id: int, topic: str, partition: int) -> bool:
        return self.checkers.leads(node_id, topic, partition)

    def looked_at(self, machine: BrokerMachine) -> None:
        self.checkers.look(machine)

    def unrest(self) -> list[str]:
        unserved = [
            f"{client.name} is not served"
            for client in self.clients
            if client.served == self._served[client.name]
        ]
        return self.checkers.unrest() + unserved

    def rest(self) -> None:
        self._served = {client.name: client.served for client in self.clients}
        super().rest()
        self.checkers.check_equal()
        for truth in self.truths:
            for node_id in self.checkers.states.now[truth.topic, truth.partition].isr:
                truth.check(self.by_id[node_id].files)
