"""A simulated cluster whose clients are members of consumer groups (KIP-848)."""

from __future__ import annotations

from tests.simulation.cluster.client import ClusterClient
from tests.simulation.cluster.consumer_groups import SESSION_S, ConsumerGroupTruth, ConsumerMember
from tests.simulation.cluster.controller_clients import LevelRaiser, TopicMaker
from tests.simulation.cluster.group_cluster import GroupCluster

TOPIC, PARTITIONS = "ledger", 4
GROUPS, MEMBERS = 2, 3


class ConsumerCluster(GroupCluster):
    """A simulated cluster whose clients are members of consumer groups. One seed determines the
    whole simulation."""

    def _settings(self) -> dict[str, str]:
        return {
            **super()._settings(),
            "inter.broker.protocol.version": "3.9-IV0",
            "group.consumer.assignment.interval.ms": self.chance.choice(("0", "0", "1000")),
            "group.consumer.min.session.timeout.ms": str(SESSION_S * 1000),
            "group.consumer.session.timeout.ms": str(SESSION_S * 1000),
        }

    def members(self) -> list[ClusterClient]:
        self.groups = [
            ConsumerGroupTruth(f"group-{number}", TOPIC, PARTITIONS) for number in range(GROUPS)
        ]
        members = []
        for number, group in enumerate(self.groups):
            for each in range(MEMBERS):
                name, host = f"{group.group_id}-{each}", f"10.3.{number}.{each}"
                instance_id = name if each == 0 else None
                members.append(ConsumerMember(self, name, host, self.fork(), group, instance_id))
        return [
            TopicMaker(self, "maker", "10.1.0.1", self.fork(), {TOPIC: PARTITIONS}),
            LevelRaiser(self, "raiser", "10.1.0.2", self.fork(), "group.version"),
            *members,
        ]

    def unrest_of_groups(self) -> list[str]:
        return [each for group in self.groups for each in group.unrest()]
