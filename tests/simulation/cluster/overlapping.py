"""A busy cluster in which commits on a second connection arrive before, during and after EndTxn."""

from __future__ import annotations

from collections.abc import Hashable
from random import Random
from typing import TYPE_CHECKING, Any

from protocol.errors import NONE
from tests.simulation.cluster.busy import BusyCluster
from tests.simulation.cluster.client import (
    ClusterClient,
    coordinator_in,
    coordinator_request,
)
from tests.simulation.cluster.transactions import Transactor
from tests.simulation.transactions.second_connection import SecondConnection
from tests.simulation.whole.client import Sent, WireRequest

if TYPE_CHECKING:
    from tests.simulation.cluster.world import ClusterWorld


class SecondOfTransactor(ClusterClient, SecondConnection):
    """The second connection of a transactional producer, to the coordinator of its group."""

    def __init__(
        self, cluster: ClusterWorld, name: str, host: str, chance: Random, of: Transactor
    ) -> None:
        super().__init__(cluster, name, host, chance, of=of)
        self._of_group = of.group_id

    @property
    def errand(self) -> Hashable:
        return self._of_group

    def look(self) -> WireRequest:
        return coordinator_request(self._of_group, 0)

    def found(self, answer: dict[str, Any]) -> int:
        return coordinator_in(answer)

    def lost(self) -> None:
        ClusterClient.lost(self)
        SecondConnection.lost(self)

    def work(self) -> None:
        SecondConnection.act(self)

    def heard(self, sent: Sent, answer: dict[str, Any]) -> None:
        if self.take(sent, answer) == NONE:
            self.served += 1
        else:
            self._found.pop(self.errand, None)


class OverlappingCluster(BusyCluster):
    """A busy cluster whose transactional producers have a second connection."""

    def _settings(self) -> dict[str, str]:
        # Accepted records are appended this much later, so that a turn has time for many requests.
        linger_ms = self.chance.choice(("0", "5"))
        return {**super()._settings(), "group.coordinator.append.linger.ms": linger_ms}

    def _clients(self) -> list[ClusterClient]:
        seconds = []
        for number, each in enumerate(self.transactors):
            name, host = f"{each.name} again", f"10.4.2.{number}"
            each.second = SecondOfTransactor(self, name, host, self.fork(), each)
            seconds.append(each.second)
        return [*super()._clients(), *seconds]

    def unrest(self) -> list[str]:
        # In calm they repeat no request, so they need not be served.
        return [each for each in super().unrest() if " again is not served" not in each]
