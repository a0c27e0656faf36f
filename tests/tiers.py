"""The tiers of tests: `make test`, the slices of `make campaign`, and `make soak`.

A test is in the tier `campaign` if it runs another program (`interop`, `faults`, `pipeline`) or has
the mark `campaign`. All other tests are in the tier `test`. The mark `smoke` puts a test of another
program into `make test`, so that each kind of program has one test there. The mark `soak` is for
tests that take hours. It overrides the other marks.

A slice is the part of the campaign that one CI run adds to `make test`. `tests/durations.json`
contains the slice of each recorded test. All slices take equally long. A new test is in the slice
of its file. The slice of a new file is a hash of its name. `make durations` runs the campaign and
assigns the tests to slices again.
"""

from __future__ import annotations

import functools
import heapq
import json
import os
import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import TypeVar

import pytest
from _pytest.mark import ParameterSet

TIERS = ("test", "campaign", "soak")
SLICES = 6
RECORDED = Path(__file__).parent / "durations.json"
"""A file that has, for each test of the tier `campaign` (by node id), the test's duration and the
slice of the tier that runs the test. The duration in seconds includes set-up and tear-down."""
RECORDINGS = RECORDED.parent.parent / "build" / "durations"
"""The folder with one file for each slice of the campaign that ran with `--record-durations`."""
LONG_S = 20.0
"""Tests that take longer than this number of seconds start first. If such a test started last, one
worker would run alone at the end."""
SPLIT_S = 120.0
"""A duration in seconds. If the tests of a file take longer, they are assigned to several slices.
The tests of other files stay together, because they share fixtures."""
SPLIT = "tests/simulation/"
"""A folder whose tests share no fixtures. Therefore the tests of one file, with their seeds and
planted faults, may be in different slices of `make campaign`."""
OTHER_PROGRAMS = ("interop", "faults", "pipeline")
T = TypeVar("T")
INSTALL = re.compile(r"apt-get install -y ([a-z0-9 .+-]+)")


def tier_of(item: pytest.Item) -> str:
    marks = {mark.name for mark in item.iter_markers()}
    if "soak" in marks:
        return "soak"
    if "campaign" in marks:
        return "campaign"
    return "campaign" if marks.intersection(OTHER_PROGRAMS) and "smoke" not in marks else "test"


def sampled(values: Iterable[T], sample: Container[T]) -> list[T | ParameterSet]:
    """Returns the parameters of a test. The values in ``sample`` run in `make test`, and all others
    in the campaign."""
    in_campaign = pytest.mark.campaign
    return [
        value if value in sample else pytest.param(value, marks=in_campaign) for value in values
    ]


def recorded() -> dict[str, tuple[int, float]]:
    """Returns two recorded facts about each test, by node id: the number of the slice of `make
    campaign` to which the test belongs, and the test's duration in seconds."""
    return dict(json.loads(RECORDED.read_text())) if RECORDED.exists() else {}


def deal(seconds: Mapping[str, float]) -> dict[str, int]:
    """Distributes the tests to the slices, so that all slices take about the same time. Returns the
    slice of each test, by node id.

    The tests of a file are in the same slice, unless they take longer than `SPLIT_S` or the file is
    in `SPLIT`. The longest file is assigned first, and each file goes to the slice with the
    shortest total time so far.
    """
    files: defaultdict[str, list[str]] = defaultdict(list)
    for node in seconds:
        files[file_of(node)].append(node)
    parts: list[tuple[float, list[str]]] = []
    for file, nodes in files.items():
        total = sum(seconds[node] for node in nodes)
        whole = total <= SPLIT_S and not file.startswith(SPLIT)
        parts += [(total, nodes)] if whole else [(seconds[node], [node]) for node in nodes]
    slices = [(0.0, number) for number in range(1, SLICES + 1)]
    dealt: dict[str, int] = {}
    for total, nodes in sorted(parts, key=lambda part: (-part[0], part[1])):
        taken, number = heapq.heappop(slices)
        dealt |= dict.fromkeys(nodes, number)
        heapq.heappush(slices, (taken + total, number))
    return dealt


@functools.cache
def _slices() -> dict[str, int]:
    """Returns the number of the slice of each campaign test, by the node id of the test. If all
    tests of a file are in one slice, the result also has this number under the path of the file."""
    by_node = {node: number for node, (number, _) in recorded().items()}
    by_file: defaultdict[str, set[int]] = defaultdict(set)
    for node, number in by_node.items():
        by_file[file_of(node)].add(number)
    return by_node | {file: min(numbers) for file, numbers in by_file.items() if len(numbers) == 1}


def file_of(node: str) -> str:
    return node.partition("::")[0]


def slice_of(node: str) -> int:
    """Returns the slice, from 1 to `SLICES`, of a test in the tier `campaign`."""
    file = file_of(node)
    new = node if file.startswith(SPLIT) else file
    return _slices().get(node) or _slices().get(file) or zlib.crc32(new.encode()) % SLICES + 1


def record(number: int, seconds: Mapping[str, float]) -> None:
    """Writes the durations of the tests in slice ``number`` to a file that `fold` reads."""
    _recording(number).parent.mkdir(parents=True, exist_ok=True)
    _recording(number).write_text(json.dumps(seconds))


def fold() -> None:
    """Writes `tests/durations.json` from the recordings of all slices. Raises FileNotFoundError if
    a slice was not recorded.

    The file must not change while the slices run, because a changed file would assign tests to
    other slices.
    """
    seconds: dict[str, float] = {}
    for number in range(1, SLICES + 1):
        seconds |= json.loads(_recording(number).read_text())
    dealt = deal(seconds)
    rows = {node: [dealt[node], round(seconds[node], 1)] for node in sorted(seconds)}
    lines = [f"{json.dumps(node)}: {json.dumps(row)}" for node, row in rows.items()]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    for number in range(1, SLICES + 1):
        _recording(number).unlink()


def _recording(number: int) -> Path:
    return RECORDINGS / f"slice-{number}.json"


def in_order(nodes: Sequence[T], workers: int, is_long: Callable[[T], object]) -> list[T]:
    """Returns the tests in an order in which the long tests start first and each worker gets
    equally many tests.

    The list consists of one part for each worker. A worker runs its part from the beginning, and
    then takes tests from the ends of other parts. If a long test were at the end of a part, it
    could start last and run while all other workers have finished.
    """
    long = [node for node in nodes if is_long(node)]
    short = [node for node in nodes if not is_long(node)]
    each = ceil(len(short) / workers)
    parts = (
        [*long[worker::workers], *short[worker * each : (worker + 1) * each]]
        for worker in range(workers)
    )
    return [node for part in parts for node in part]


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiers", "which of Muster's tests run")
    group.addoption("--tier", choices=TIERS, help="run the tests of this tier alone")
    slices = range(1, SLICES + 1)
    group.addoption("--slice", type=int, choices=slices, help="run this part of the campaign")
    group.addoption(
        "--record-durations",
        action="store_true",
        help="record how long the tests of a slice take; see make durations",
    )


class Tiers:
    """A pytest plugin that selects the tests of one tier and prints a summary of the run."""

    def __init__(self, config: pytest.Config) -> None:
        self._tier: str | None = config.getoption("--tier")
        self._slice: int | None = config.getoption("--slice")
        self._records: bool = config.getoption("--record-durations")
        self._is_worker = hasattr(config, "workerinput")
        self._seconds: defaultdict[str, float] = defaultdict(float)
        if self._slice is not None and self._tier != "campaign":
            raise pytest.UsageError("--slice goes with --tier campaign")
        is_part = config.getoption("keyword") or config.args_source.name != "TESTPATHS"
        if self._records and not self._is_worker and (self._slice is None or is_part):
            raise pytest.UsageError(
                "--record-durations goes with --tier campaign --slice N, without files and -k:"
                " a whole slice is recorded"
            )

    @pytest.hookimpl(trylast=True)  # after pytest-randomly, -m and -k
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Selects the tests of the tier or slice, and sorts them for the workers."""
        chosen: list[pytest.Item] = []
        left_out: list[pytest.Item] = []
        for item in items:
            (chosen if self._is_chosen(item) else left_out).append(item)
        if left_out:
            config.hook.pytest_deselected(items=left_out)
        workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
        long = {node for node, (_, seconds) in recorded().items() if seconds >= LONG_S}
        items[:] = in_order(
            chosen,
            workers,
            lambda item: item.get_closest_marker("long") or item.nodeid in long,
        )

    def _is_chosen(self, item: pytest.Item) -> bool:
        if self._tier is None:
            return True
        if tier_of(item) != self._tier:
            return False
        return self._slice is None or slice_of(item.nodeid) == self._slice

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Adds the duration of one phase (set-up, call or tear-down) to the total of a test."""
        self._seconds[report.nodeid] += report.duration

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """If `--record-durations` is set and all tests of a slice have run, writes the durations of
        these tests."""
        has_run = self._seconds and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        if self._records and not self._is_worker and self._slice is not None and has_run:
            record(self._slice, self._seconds)

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter, config: pytest.Config
    ) -> None:
        """Prints the skipped tests. After a failure, also prints the command that repeats the
        slice."""
        for line in summary(terminalreporter.stats.get("skipped", [])):
            terminalreporter.write_line(line)
        failed = terminalreporter.stats.get("failed", []) + terminalreporter.stats.get("error", [])
        if self._slice is not None and failed:
            seed = config.getoption("randomly_seed", default=None)
            order = f" ARGS=--randomly-seed={seed}" if isinstance(seed, int) else ""
            release = os.environ.get("KAFKA_RELEASE")
            set_ = f"KAFKA_RELEASE={release} " if release else ""
            one, slice_ = failed[0].nodeid, f"make campaign SLICE={self._slice}{order}"
            terminalreporter.write_line(f"one test: {set_}.venv/bin/pytest '{one}'")
            terminalreporter.write_line(f"the slice: {set_}{slice_}")


def summary(skipped: list[pytest.TestReport]) -> list[str]:
    """Returns lines about the skipped tests: a count per reason, and the command that installs the
    missing programs."""
    tests: defaultdict[str, int] = defaultdict(int)
    packages: set[str] = set()
    for report in skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reason = reason.removeprefix("Skipped: ")
        tests[reason] += 1
        if found := INSTALL.search(reason):
            packages.update(found[1].split())
    lines = [f"skipped {count}: {reason}" for reason, count in sorted(tests.items())]
    if packages:
        lines.append(f"install what is missing: apt-get install -y {' '.join(sorted(packages))}")
    return lines


if __name__ == "__main__":
    fold()
