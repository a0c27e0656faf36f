"""The planted faults: which checker must find each, and where that is run.

`python -m tests.planted` prints them. A planted fault is a test with the mark `planted`: it puts a
wrong piece into Muster, or wrong data before a checker, and fails when the checker finds nothing.
"""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.tiers import slice_of, tier_of

TESTS = Path(__file__).parent


class Fault(NamedTuple):
    """A planted fault, and where it is found."""

    checker: str
    node: str
    where: str
    """`make test`, `slice N` of `make campaign`, or `make soak`."""


class _Collector:
    """Keeps the planted faults of a collection."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Read the marks of each test."""
        for item in session.items:
            if (mark := item.get_closest_marker("planted")) is not None:
                where = {
                    "test": "make test",
                    "campaign": f"slice {slice_of(item.nodeid)}",
                    "soak": "make soak",
                }[tier_of(item)]
                self.faults.append(Fault(mark.args[0], item.nodeid, where))


def planted() -> list[Fault]:
    """All planted faults, sorted by checker; for a process of its own, as pytest runs in it."""
    files = [str(file) for file in TESTS.rglob("test_*.py") if "mark.planted(" in file.read_text()]
    collector = _Collector()
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = pytest.main(["--collect-only", "-q", *sorted(files)], plugins=[collector])
    if code:
        raise SystemExit(said.getvalue())
    return sorted(collector.faults)


def main() -> None:
    """Print a line for each planted fault: checker, where it is found, node id."""
    for fault in planted():
        print(fault.checker, fault.where, fault.node, sep=" | ")


if __name__ == "__main__":
    sys.exit(main())
