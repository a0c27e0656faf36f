"""`migrate`: plans the copy of offsets from ZooKeeper's consumer paths to `__consumer_offsets`, or
back.

Source and target are maps of committed offsets; this module does not read them itself. The greater
of two offsets wins, as in Kafka's own migration: a consumer with `dual.commit.enabled` writes to
ZooKeeper and to Kafka, and starts from the greater offset (Kafka 0.8.2 to 1.1,
ZookeeperConsumerConnector.fetchOffsets). A second migration therefore changes nothing, and no
offset goes backwards unless the user requests it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from pipeline.errors import PipelineError
from pipeline.repairs.plan import Bounds, Key, Log, Position, Positions, Step, step

MISSING = "missing"
"""The outcome if the target has no offset for the partition: the offset is copied."""
BEHIND = "behind"
"""The outcome if the target's offset is lower than the source's offset. The source's offset
replaces the target's offset."""
NEWER = "newer"
"""The outcome if the target's offset is greater than the source's: the target's offset stays,
unless offsets may go backwards."""
EQUAL = "equal"
ABSENT = "absent"
"""The outcome if the target's cluster does not have the partition: the offset is left out."""
OUTCOMES = (MISSING, BEHIND, NEWER, EQUAL, ABSENT)

NOTES = {NEWER: "goes backwards"}

_PATH = re.compile(r"/consumers/(?P<group>[^/]+)/offsets/(?P<topic>[^/:]+)/(?P<partition>\d+)")


class Finding(NamedTuple):
    """One offset as it is in the source and in the target, and the outcome of their comparison."""

    key: Key
    source: Position
    target: Position | None
    outcome: str


class Migration(NamedTuple):
    """The result of `plan_migration`: a finding for each offset, and the steps of the plan."""

    findings: tuple[Finding, ...]
    steps: tuple[Step, ...]

    def counts(self) -> dict[str, int]:
        found = [finding.outcome for finding in self.findings]
        return {outcome: found.count(outcome) for outcome in OUTCOMES}


def plan_migration(
    source: Positions,
    target: Positions,
    bounds: Mapping[Log, Bounds],
    *,
    backwards: bool = False,
    keeps_metadata: bool = True,
) -> Migration:
    """Plan the steps that replace offsets of the target by the source's later offsets. With
    ``backwards``, also plan the steps to earlier offsets.

    ``bounds`` has the partitions that currently exist. ``keeps_metadata`` is false if the target
    stores only numbers.
    """
    findings: list[Finding] = []
    steps: list[Step] = []
    for key, position in sorted(source.items()):
        before = target.get(key)
        after = position if keeps_metadata else Position(position.offset)
        if key.log not in bounds:
            findings.append(Finding(key, position, before, ABSENT))
            continue
        outcome = _outcome(position, before)
        findings.append(Finding(key, position, before, outcome))
        if outcome in (MISSING, BEHIND) or (outcome == NEWER and backwards):
            steps.append(step(key, before, after, bounds[key.log], NOTES.get(outcome)))
    return Migration(tuple(findings), tuple(steps))


def _outcome(source: Position, target: Position | None) -> str:
    if target is None:
        return MISSING
    if target.offset == source.offset:
        return EQUAL
    return BEHIND if target.offset < source.offset else NEWER


def path_of(key: Key) -> str:
    return f"/consumers/{key.group}/offsets/{key.topic}/{key.partition}"


def read_zk_export(text: str, name: str) -> dict[Key, Position]:
    """Parse a file of Kafka's ExportZkOffsets: ``/consumers/GROUP/offsets/TOPIC/PARTITION:OFFSET``.
    Raise PipelineError, which names the line, if a line is invalid."""
    found: dict[Key, Position] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        path, _, offset = line.strip().rpartition(":")
        match = _PATH.fullmatch(path)
        if match is None or not offset.isdecimal():
            raise PipelineError(
                f"{name}, line {number} is invalid: write it as"
                " /consumers/GROUP/offsets/TOPIC/PARTITION:OFFSET"
            )
        key = Key(match["group"], match["topic"], int(match["partition"]))
        if key in found:
            raise PipelineError(
                f"{name}, line {number}: {key} is listed twice: delete one of the two lines"
            )
        found[key] = Position(int(offset))
    return found


def is_zk_export(text: str) -> bool:
    return text.lstrip().startswith("/consumers/")
