"""The coverage of a differential run: numbers of compared responses by API, version, group state
and error code.

ROWS and COLUMNS are those of the coordinator's table of responses. States that no client can cause
are omitted: a dead group, a loading group, and a group of another broker. Transactional commits are
omitted too.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.interop.differential.noise import NOISE, versions
from tests.interop.differential.trace import APART, Step

ENOUGH = 20
"""The number of comparisons that a run must reach for each version of each API."""

COLUMNS = ("Dead", "Empty", "PreparingRebalance", "CompletingRebalance", "Stable")
"""The states that DescribeGroups returns. "Dead" means that the group does not exist."""

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
    """Returns the row, one of `ROWS`, to which a request belongs."""
    if step.api == "JoinGroup":
        return "JoinGroup, id given" if sent["member_id"] else "JoinGroup, new"
    if step.api == "OffsetCommit":
        nobody = sent["generation_id_or_member_epoch"] < 0 and not sent["member_id"]
        return "OffsetCommit, none" if nobody else "OffsetCommit, generation"
    return step.api


class Coverage:
    """Counts the compared responses."""

    def __init__(self) -> None:
        self.answers: Counter[tuple[str, int, str, int]] = Counter()
        self.versions: Counter[tuple[str, int]] = Counter()
        self.cells: Counter[tuple[str, str]] = Counter()
        self.parked = 0
        self.traces = 0
        self.skipped = 0

    def add(self, step: Step, sent: dict[str, Any], state: str, codes: list[int]) -> None:
        """Counts one compared response. ``state`` is the state of the group before the request."""
        for code in codes:
            self.answers[step.api, step.version, state, code] += 1
        self.versions[step.api, step.version] += 1
        about = step.says.get("group", step.says.get("groups", ["main"])[0])
        if about == "main" and (step.api, step.version) not in APART:
            self.cells[row_of(step, sent), state] += 1

    @property
    def steps(self) -> int:
        return sum(self.versions.values())

    def missing(self) -> list[str]:
        """Returns a sentence for each API version that was compared too rarely, and for each
        request and group state (`ROWS` and `COLUMNS`) that were never compared together."""
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
