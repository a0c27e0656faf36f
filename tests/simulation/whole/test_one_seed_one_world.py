"""The same seed gives the same bytes on the disk and the same answers in the same order.

Twice in this process, and once in another one whose strings hash differently.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.simulation.whole.world import World

SECONDS = 40


def fingerprint(seed: int) -> str:
    """What a world leaves behind."""
    world = World(seed)
    world.run(SECONDS)
    world.end()
    return world.fingerprint()


@pytest.mark.parametrize("seed", [3, 8])
def test_one_seed_is_one_world(seed: int) -> None:
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
