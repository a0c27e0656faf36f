"""The same seed gives the same bytes on every disk and the same answers in the same order.

Twice in this process, and once in another one whose strings hash differently.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing

import pytest

from tests.simulation.cluster.busy import BusyCluster

SECONDS = 30


def fingerprint(seed: int) -> str:
    """What a cluster leaves behind."""
    with closing(BusyCluster(seed)) as world:
        world.run(SECONDS)
        return world.fingerprint()


@pytest.mark.parametrize("seed", [2, 7])
def test_one_seed_is_one_cluster(seed: int) -> None:
    elsewhere = subprocess.run(
        [sys.executable, "-m", __name__, str(seed)],
        env={**os.environ, "PYTHONHASHSEED": "4711"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert fingerprint(seed) == fingerprint(seed) == elsewhere.stdout.split()[-1]


if __name__ == "__main__":
    print(fingerprint(int(sys.argv[1])))
