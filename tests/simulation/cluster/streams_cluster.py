"""A simulated cluster whose clients are members of streams groups (KIP-1071)."""

from __future__ import annotations

from tests.simulation.cluster.client import ClusterClient
from tests.simulation.cluster.controller_clients import LevelRaiser, TopicMaker
from tests.simulation.cluster.group_cluster import GroupCluster
from tests.simulation.cluster.streams_groups import SESSION_S, StreamsGroupTruth, StreamsMember

TOPIC, PARTITIONS = "ledger", 4
GROUPS, MEMBERS = 2, 3


class StreamsCluster(GroupCluster):
    """The cluster of one seed."""

    def _settings(self) -> dict[str, str]:
        return {
            **super()._settings(),
            "inter.broker.protocol.version": "3.9-IV0",
            "group.streams.assignment.interval.ms": self.chance.choice(("0", "0", "1000")),
            "group.streams.initial.rebalance.delay.ms": self.chance.choice(("0", "1000")),
            "group.streams.min.session.timeout.ms": str(SESSION_S * 1000),
            "group.streams.session.timeout.ms": str(SESSION_S * 1000),
        }

    def members(self) -> list[ClusterClient]:
        self.groups = [
            StreamsGroupTruth(f"group-{number}", TOPIC, PARTITIONS) for number in range(GROUPS)
        ]
        members: list[ClusterClient] = [
            StreamsMember(
                self, f"{group.group_id}-{each}", f"10.3.{number}.{each}", self.fork(), group
            )
            for number, group in enumerate(self.groups)
            for each in range(MEMBERS)
        ]
        return [
            TopicMaker(self, "maker", "10.1.0.1", self.fork(), {TOPIC: PARTITIONS}),
            LevelRaiser(self, "raiser", "10.1.0.2", self.fork(), "streams.version"),
            *members,
        ]

    def unrest_of_groups(self) -> list[str]:
        return [each for group in self.groups for each in group.unrest()]
