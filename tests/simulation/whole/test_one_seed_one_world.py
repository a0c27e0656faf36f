"""Tests that the same seed gives the same bytes on the disk, and the same responses in the same
order.

The simulation runs twice in this process, and once in another process with different string hashes.
"""

from __future__ import annotations

import sys

import pytest

from tests.simulation.whole.runs import fingerprint, fingerprint_elsewhere
from tests.simulation.whole.world import World
from tests.tiers import sampled

SECONDS = 40


@pytest.mark.parametrize("seed", sampled([3, 8], (8,)))
def test_same_seed_gives_the_same_simulation_of_a_broker(seed: int) -> None:
    first, second = (fingerprint(World(seed), SECONDS) for _ in range(2))

    assert first == second == fingerprint_elsewhere(__name__, seed)


if __name__ == "__main__":
    print(fingerprint(World(int(sys.argv[1])), SECONDS))
