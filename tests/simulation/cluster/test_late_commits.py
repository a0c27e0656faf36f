"""Tests with clients that abandon commits in flight. The coordinator executes some of these commits
after newer commits."""

from __future__ import annotations

from typing import Any

from tests.simulation.cluster.busy import TOPIC, BusyCluster
from tests.simulation.cluster.client import ClusterClient
from tests.simulation.cluster.clients import OffsetsKeeper
from tests.simulation.whole.agenda import MS
from tests.simulation.whole.client import WireRequest
from tests.simulation.whole.runs import Record, run

SECONDS = 10
KEEPERS = 8


class ImpatientKeeper(OffsetsKeeper):
    """Commits offsets, and abandons every second commit one millisecond after sending it."""

    def send(self, request: WireRequest, about: Any = None, expects_answer: bool = True) -> None:
        if request.name != "OffsetCommit" or about % 2 or self.calm:
            super().send(request, about, expects_answer)
            return
        network = self.cluster.by_id[self._at].network
        before, network.torn = network.torn, 1
        super().send(request, about, expects_answer)
        network.torn = before
        self.cluster.agenda.after(1 * MS, self._hurry)

    def _hurry(self) -> None:
        if self.sent:
            self.drop_connection()
            self.think_after(0)

    def _in_log(self, partition: int) -> list[int]:
        found = super()._in_log(partition)
        self.cluster.happened["late commits"] += found != sorted(found)
        return found


class LateCommits(BusyCluster):
    """A busy cluster with clients that abandon commits."""

    def _clients(self) -> list[ClusterClient]:
        keepers = [
            ImpatientKeeper(self, f"impatient-{number}", f"10.6.0.{number}", self.fork(), TOPIC)
            for number in range(KEEPERS)
        ]
        return [*super()._clients(), *keepers]


def test_checker_accepts_a_commit_that_is_executed_after_its_client_gave_up(
    record_property: Record,
) -> None:
    world = run(LateCommits(3), SECONDS, record_property)

    assert world.happened["late commits"] > 0
