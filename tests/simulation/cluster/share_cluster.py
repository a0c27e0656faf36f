"""A simulated cluster with a share group (KIP-932)."""

from __future__ import annotations

from tests.simulation.cluster.client import ClusterClient
from tests.simulation.cluster.controller_clients import TopicMaker
from tests.simulation.cluster.group_cluster import GroupCluster
from tests.simulation.cluster.share_groups import (
    DELIVERIES_MAX,
    ShareHeartbeater,
    ShareProducer,
    ShareReader,
    ShareStarter,
    ShareTruth,
)

TOPIC, PARTITIONS, READERS = "ledger", 2, 2


class ShareCluster(GroupCluster):
    """A simulated cluster whose clients use share groups. One seed determines the simulation."""

    first_fault_s = 9

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

    def members(self) -> list[ClusterClient]:
        self.truths = [ShareTruth(TOPIC, partition) for partition in range(PARTITIONS)]
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

    def unrest_of_groups(self) -> list[str]:
        return [each for truth in self.truths for each in truth.unrest()]
