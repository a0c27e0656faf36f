"""A simulated cluster whose clients are members of consumer groups (KIP-848)."""

from __future__ import annotations

from contextlib import AbstractContextManager

from tests.simulation.cluster.checkers import ClusterCheckers
from tests.simulation.cluster.client import ClusterClient
from tests.simulation.cluster.consumer_groups import (
    SESSION_S,
    ConsumerGroupTruth,
    ConsumerMember,
    LevelRaiser,
)
from tests.simulation.cluster.controller_clients import TopicMaker
from tests.simulation.cluster.faults import ClusterFaults
from tests.simulation.cluster.machine import BrokerMachine
from tests.simulation.cluster.world import ClusterWorld

TOPIC, PARTITIONS = "ledger", 4
GROUPS, MEMBERS = 2, 3


class ConsumerCluster(ClusterWorld):
    """The cluster that the seed determines."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.faults = ClusterFaults(self, self.fork(), first_s=7)
        if self.chance.random() < 0.5:
            for machine in self.machines:
                machine.settings["log.flush.interval.messages"] = "1"
        else:
            self.faults.worth = {**self.faults.worth, "power": 0}
        self.checkers = ClusterCheckers(self)
        self.groups = [
            ConsumerGroupTruth(f"group-{number}", TOPIC, PARTITIONS) for number in range(GROUPS)
        ]
        self._served: dict[str, int] = {}
        """For each client, the number of its requests that had been served when `rest` was
        called."""
        self.populate(self._clients())
        self.faults.begin()

    def _settings(self) -> dict[str, str]:
        return {
            **super()._settings(),
            "inter.broker.protocol.version": "3.9-IV0",
            "group.consumer.assignment.interval.ms": self.chance.choice(("0", "0", "1000")),
            "group.consumer.min.session.timeout.ms": str(SESSION_S * 1000),
            "group.consumer.session.timeout.ms": str(SESSION_S * 1000),
        }

    def _clients(self) -> list[ClusterClient]:
        members = []
        for number, group in enumerate(self.groups):
            for each in range(MEMBERS):
                name, host = f"{group.group_id}-{each}", f"10.3.{number}.{each}"
                instance_id = name if each == 0 else None
                members.append(ConsumerMember(self, name, host, self.fork(), group, instance_id))
        return [
            TopicMaker(self, "maker", "10.1.0.1", self.fork(), {TOPIC: PARTITIONS}),
            LevelRaiser(self, "raiser", "10.1.0.2", self.fork()),
            *members,
        ]

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
        groups = [each for group in self.groups for each in group.unrest()]
        return self.checkers.unrest() + unserved + groups

    def unequal(self) -> list[str]:
        return self.checkers.unequal()

    def rest(self) -> None:
        self._served = {client.name: client.served for client in self.clients}
        super().rest()
        self.checkers.check_equal()
