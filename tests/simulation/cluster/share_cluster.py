"""A simulated cluster with a share group (KIP-932)."""

from __future__ import annotations

from contextlib import AbstractContextManager

from tests.simulation.cluster.checkers import ClusterCheckers
from tests.simulation.cluster.client import ClusterClient
from tests.simulation.cluster.controller_clients import TopicMaker
from tests.simulation.cluster.faults import ClusterFaults
from tests.simulation.cluster.machine import BrokerMachine
from tests.simulation.cluster.share_groups import (
    DELIVERIES_MAX,
    ShareHeartbeater,
    ShareProducer,
    ShareReader,
    ShareStarter,
    ShareTruth,
)
from tests.simulation.cluster.world import ClusterWorld

TOPIC, PARTITIONS, READERS = "ledger", 2, 2


class ShareCluster(ClusterWorld):
    """The cluster that the seed determines."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.faults = ClusterFaults(self, self.fork(), first_s=9)
        if self.chance.random() < 0.5:
            for machine in self.machines:
                machine.settings["log.flush.interval.messages"] = "1"
        else:
            self.faults.worth = {**self.faults.worth, "power": 0}
        self.checkers = ClusterCheckers(self)
        self.truths = [ShareTruth(TOPIC, partition) for partition in range(PARTITIONS)]
        self._served: dict[str, int] = {}
        """For each client, the number of its requests that had been served when `rest` was
        called."""
        self.populate(self._clients())
        self.faults.begin()

    def _settings(self) -> dict[str, str]:
        return {
            **super()._settings(),
            "inter.broker.protocol.version": "3.9-IV0",
            "share.coordinator.state.topic.replication.factor": "3",
            "share.coordinator.state.topic.num.partitions": "2",
            "share.coordinator.snapshot.update.records.per.snapshot": self.chance.choice(
                ("5", "500")
            ),
            "share.coordinator.state.topic.prune.interval.ms": "5000",
            "group.share.delivery.count.limit": str(DELIVERIES_MAX),
            "group.share.record.lock.duration.ms": "15000",
        }

    def _clients(self) -> list[ClusterClient]:
        starter = ShareStarter(self, "starter", "10.1.0.2", self.fork())
        heartbeater = ShareHeartbeater(self, "heartbeater", "10.1.0.3", self.fork(), starter, TOPIC)
        clients: list[ClusterClient] = [
            TopicMaker(self, "maker", "10.1.0.1", self.fork(), {TOPIC: PARTITIONS}),
            starter,
            heartbeater,
        ]
        for truth in self.truths:
            number = truth.partition
            host = f"10.2.{number}.0"
            clients.append(ShareProducer(self, f"producer-{number}", host, self.fork(), truth))
            for each in range(READERS):
                name, host = f"reader-{number}-{each}", f"10.3.{number}.{each}"
                clients.append(ShareReader(self, name, host, self.fork(), truth))
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
        records = [each for truth in self.truths for each in truth.unrest()]
        return self.checkers.unrest() + unserved + records

    def unequal(self) -> list[str]:
        return self.checkers.unequal()

    def rest(self) -> None:
        self._served = {client.name: client.served for client in self.clients}
        super().rest()
        self.checkers.check_equal()
