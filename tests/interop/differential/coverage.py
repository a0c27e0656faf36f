"""Coverage of a differential run: API by version by group state by error.

ROWS and COLUMNS are those of the table of responses that a coordinator owes to every request in
every state; the columns that no client can cause from outside (a dead group, a loading group, a
group of another broker) are omitted, and so are transactional commits.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.interop.differential.noise import NOISE, versions
from tests.interop.differential.trace import APART, Step

ENOUGH = 20
"""The number of comparisons that a run must reach per version of every API."""

COLUMNS = ("Dead", "Empty", "PreparingRebalance", "CompletingRebalance", "Stable")
"""States in DescribeGroups; "Dead" is its state of a group that does not exist."""

ROWS = (
    "JoinGroup, id given",
    "JoinGroup, new",
    "SyncGroup",
    "Heartbeat",
    "LeaveGroup",
    "OffsetCommit, generation",
    "OffsetCommit, none",
    "OffsetFetch",
    "DescribeGroups",
    "DeleteGroups",
    "OffsetDelete",
)


def row_of(step: Step, sent: dict[str, Any]) -> str:
    """The row of a request."""
    if step.api == "JoinGroup":
        return "JoinGroup, id given" if sent["member_id"] else "JoinGroup, new"
    if step.api == "OffsetCommit":
        nobody = sent["generation_id_or_member_epoch"] < 0 and not sent["member_id"]
        return "OffsetCommit, none" if nobody else "OffsetCommit, generation"
    return step.api


class Coverage:
    """Counts of compared answers."""

    def __init__(self) -> None:
        self.answers: Counter[tuple[str, int, str, int]] = Counter()
        self.versions: Counter[tuple[str, int]] = Counter()
        self.cells: Counter[tuple[str, str]] = Counter()
        self.parked = 0
        self.traces = 0
        self.skipped = 0

    def add(self, step: Step, sent: dict[str, Any], state: str, codes: list[int]) -> None:
        """Count one compared response; `state` is the group's before the request."""
        for code in codes:
            self.answers[step.api, step.version, state, code] += 1
        self.versions[step.api, step.version] += 1
        about = step.says.get("group", step.says.get("groups", ["main"])[0])
        if about == "main" and (step.api, step.version) not in APART:
            self.cells[row_of(step, sent), state] += 1

    @property
    def steps(self) -> int:
        """The number of compared responses."""
        return sum(self.versions.values())

    def missing(self) -> list[str]:
        """Versions with too few comparisons, and cells never reached."""
        found = [
            f"{api} v{version} was compared {self.versions[api, version]} times, not {ENOUGH}"
            for api in NOISE
            for version in versions(api)
            if self.versions[api, version] < ENOUGH
        ]
        return found + [
            f"no {row} in state {column}"
            for row in ROWS
            for column in COLUMNS
            if not self.cells[row, column]
        ]

    def summary(self) -> str:
        """The cells and the versions as a page of text."""
        lines = [
            f"{self.steps} answers compared in {self.traces} traces, {self.parked} of them after "
            f"being parked; {self.skipped} steps left out by their guards",
            "",
            f"{'request':<26}" + "".join(f"{column:>21}" for column in COLUMNS),
        ]
        for row in ROWS:
            counts = "".join(f"{self.cells[row, column]:>21}" for column in COLUMNS)
            lines.append(f"{row:<26}{counts}")
        lines += ["", "by version:"]
        for api in NOISE:
            counts = " ".join(f"v{v}:{self.versions[api, v]}" for v in versions(api))
            lines.append(f"  {api:<16}{counts}")
        return "\n".join(lines)

    def detail(self) -> str:
        """Counts of responses by version, state and error."""
        lines = ["by version, state and error (0 is none):"]
        for api in NOISE:
            for version in versions(api):
                parts = []
                for state in COLUMNS:
                    codes = {
                        code: count
                        for (a, v, s, code), count in sorted(self.answers.items())
                        if (a, v, s) == (api, version, state)
                    }
                    said = " ".join(f"{code}x{count}" for code, count in codes.items())
                    parts.append(f"{state}[{said}]")
                lines.append(f"  {api} v{version}: " + " ".join(parts))
        return "\n".join(lines)
