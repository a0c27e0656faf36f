"""Tests of a leader that loses power and restarts before a controller notices. The leader must not
lead again in its old epoch.

In some of the tests, the controller writes the ISR to ZooKeeper; in the others, the leader writes
it.
"""

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
def test_controller_treats_a_leader_whose_restart_it_did_not_notice_as_failed(
    seed: int, version: str, record_property: Record
) -> None:
    world = run(UnseenReturns(seed, version), SECONDS, record_property)

    assert world.happened["struck"] > 0


@pytest.mark.campaign
@pytest.mark.planted("simulated cluster")
def test_simulation_detects_a_controller_that_misses_quick_broker_restarts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Cluster, "lost_since", lambda self, known: ())

    find_fault(UnseenReturns, range(20), SECONDS)
