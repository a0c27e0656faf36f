"""A leader that loses power and is back before a controller saw it gone: it leads no more in that
leader epoch, whoever writes in-sync replicas."""

from __future__ import annotations

import pytest

from controller.cluster import Cluster
from tests.simulation.cluster.unseen import UnseenReturns
from tests.simulation.whole.runs import Record, find_fault, run

SECONDS = 20
SEEDS = (1, 3)


@pytest.mark.campaign
@pytest.mark.parametrize("version", ["2.6-IV0", "3.9-IV0"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_leader_that_came_back_unseen_is_taken_for_lost(
    seed: int, version: str, record_property: Record
) -> None:
    world = run(UnseenReturns(seed, version), SECONDS, record_property)

    assert world.happened["struck"] > 0


@pytest.mark.campaign
@pytest.mark.planted("simulated cluster")
def test_a_controller_that_does_not_look_for_them_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cluster, "lost_since", lambda self, known: ())

    find_fault(UnseenReturns, range(20), SECONDS)
