"""A simulated cluster whose clients are members of groups of one type."""

from __future__ import annotations

from contextlib import AbstractContextManager

from tests.simulation.cluster.checkers import ClusterCheckers
from tests.simulation.cluster.client import ClusterClient
from tests.simulation.cluster.faults import ClusterFaults
from tests.simulation.cluster.machine import BrokerMachine
from tests.simulation.cluster.world import ClusterWorld


class GroupCluster(ClusterWorld):
    """A simulated cluster with groups. One seed determines all events."""

    first_fault_s = 7

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.faults = ClusterFaults(self, self.fork(), first_s=self.first_fault_s)
        if self.chance.random() < 0.5:
            for machine in self.machines:
                machine.settings["log.flush.interval.messages"] = "1"
        else:
            self.faults.worth = {**self.faults.worth, "power": 0}
        self.checkers = ClusterCheckers(self)
        self._served: dict[str, int] = {}
        """By client name: the number of requests of the client that were served before `rest` was
        called. A client whose number does not grow afterwards is not served."""
        self.populate(self.members())
        self.faults.begin()

    # -- for subclasses

    def members(self) -> list[ClusterClient]:
        """Makes all clients of the cluster."""
        raise NotImplementedError

    def unrest_of_groups(self) -> list[str]:
        """Returns a text for each group that still has work, such as a group that is not stable."""
        raise NotImplementedError

    # -- ClusterWorld

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
        return self.checkers.unrest() + unserved + self.unrest_of_groups()

    def unequal(self) -> list[str]:
        return self.checkers.unequal()

    def rest(self) -> None:
        self._served = {client.name: client.served for client in self.clients}
        super().rest()
        self.checkers.check_equal()
