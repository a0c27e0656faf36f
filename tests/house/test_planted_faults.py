"""Each planted fault is detected by a test. For each checker, `make test` detects at least one
fault.

`python -m tests.planted` prints the test that detects each fault. MUSTER_GOLDEN=write rewrites the
list after a fault was added, or was moved between `make test` and the campaign. Remove a fault from
the list only if another fault replaces it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.brokers import CHECKOUT

LIST = Path(__file__).parent.parent / "data" / "planted_faults.txt"


@pytest.fixture(scope="module")
def found() -> list[list[str]]:
    """Returns for each fault: the checker, the run that detects the fault (`make test` or a slice
    of `make campaign`), and the id of the test."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.planted"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    return [line.split(" | ") for line in ran.stdout.splitlines()]


def test_list_of_planted_faults_is_up_to_date(found: list[list[str]]) -> None:
    lines = [
        f"{checker} | {'make test' if where == 'make test' else 'campaign'} | {node}"
        for checker, where, node in found
    ]
    text = "\n".join(sorted(lines)) + "\n"
    if os.environ.get("MUSTER_GOLDEN") == "write":
        LIST.write_text(text)
    assert text.splitlines() == LIST.read_text().splitlines()


def test_make_test_plants_a_fault_for_each_checker_and_the_checker_finds_it(
    found: list[list[str]],
) -> None:
    proven = {checker for checker, where, _ in found if where == "make test"}
    assert sorted({checker for checker, _, _ in found} - proven) == []


def test_each_campaign_slice_plants_a_fault_into_the_simulated_cluster(
    found: list[list[str]],
) -> None:
    proven = {where for checker, where, _ in found if checker == "simulated cluster"}
    assert proven >= {f"slice {number}" for number in range(1, 7)}
