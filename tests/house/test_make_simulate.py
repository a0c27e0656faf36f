"""Tests the filter in the command `make simulate SEED=n`, which selects tests by a part of their
names: it must select a test of each simulated world."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORLDS = ("test_simulation.py", "consumer", "share", "transactions", "whole", "cluster")
"""The simulated worlds: each is a test file or a folder of tests/simulation."""


@pytest.mark.parametrize("world", WORLDS)
def test_make_simulate_runs_a_test_of_each_simulation(world: str) -> None:
    found = re.search(r'tests/simulation -k "(\w+)"', (ROOT / "Makefile").read_text())
    assert found is not None
    place = ROOT / "tests" / "simulation" / world
    files = [place] if place.is_file() else list(place.glob("test_*.py"))
    names = [name for file in files for name in re.findall(r"def (test_\w+)", file.read_text())]
    assert [name for name in names if found[1] in name]
