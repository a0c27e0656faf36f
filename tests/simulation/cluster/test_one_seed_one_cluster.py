"""Tests that the same seed gives the same bytes on each disk, and the same responses in the same
order.

The simulation runs twice in this process, and once in another process with different string hashes.
"""

from __future__ import annotations

import sys

import pytest

from tests.simulation.cluster.busy import BusyCluster
from tests.simulation.whole.runs import fingerprint, fingerprint_elsewhere
from tests.tiers import sampled

SECONDS = 30


@pytest.mark.parametrize("seed", sampled([2, 7], (2,)))
def test_same_seed_gives_the_same_simulation_of_a_cluster(seed: int) -> None:
    first, second = (fingerprint(BusyCluster(seed), SECONDS) for _ in range(2))

    assert first == second == fingerprint_elsewhere(__name__, seed)


if __name__ == "__main__":
    print(fingerprint(BusyCluster(int(sys.argv[1])), SECONDS))
