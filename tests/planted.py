"""Lists the planted faults. For each fault: the checker that must find it, and the make target that
tests it.

`python -m tests.planted` prints the list. A planted fault is a test with the mark `planted`. The
test puts a faulty part into Muster, or passes wrong data to a checker, and fails if the checker
reports no failure.
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
    """A planted fault: the checker that must find it, the test that contains it, and the make
    target that runs this test."""

    checker: str
    node: str
    where: str
    """The make target that tests the fault: `make test`, `slice N` of `make campaign`, or `make
    soak`."""


class _Collector:
    """A pytest plugin that collects planted faults."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            if (mark := item.get_closest_marker("planted")) is not None:
                where = {
                    "test": "make test",
                    "campaign": f"slice {slice_of(item.nodeid)}",
                    "soak": "make soak",
                }[tier_of(item)]
                self.faults.append(Fault(mark.args[0], item.nodeid, where))


def planted() -> list[Fault]:
    """Returns all planted faults, sorted by checker. Runs pytest's collection, so a separate
    process is needed."""
    files = [str(file) for file in TESTS.rglob("test_*.py") if "mark.planted(" in file.read_text()]
    collector = _Collector()
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = pytest.main(["--collect-only", "-q", *sorted(files)], plugins=[collector])
    if code:
        raise SystemExit(said.getvalue())
    return sorted(collector.faults)


def main() -> None:
    for fault in planted():
        print(fault.checker, fault.where, fault.node, sep=" | ")


if __name__ == "__main__":
    sys.exit(main())
