"""Results of Kafka 4.3.1's classes for random groups and topologies, stored in a file.

tests/interop/test_streams_classes.py writes the file with ``MUSTER_GOLDEN=write`` and compares many
more cases; the stored ones need no Java.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from offsets.streams_records import TaskRoles
from tests.coordinator.assignors.task_groups import TaskGroup, random_lives
from tests.coordinator.streams.topologies import random_case

GOLDEN = Path(__file__).parents[2] / "data" / "golden" / "streams_classes.jsonl"
TOPOLOGIES = range(120)
LIVES = range(12)
"""The seeds of the stored cases."""


def given_group(group: TaskGroup) -> dict[str, Any]:
    """Returns the input of StreamsClasses.java."""
    return {
        "call": "assign",
        "members": {
            member_id: {
                "process": member.process_id,
                "active": member.previous.active,
                "standby": member.previous.standby,
            }
            for member_id, member in group.members.items()
        },
        "subtopologies": dict(sorted(group.subtopologies.items())),
        "standby_replicas": group.replicas,
    }


def targets_of(kafka: Mapping[str, Any]) -> dict[str, TaskRoles]:
    """Returns the targets in an output of StreamsClasses.java."""
    return {
        member_id: TaskRoles(
            {name: tuple(partitions) for name, partitions in target["active"].items()},
            {name: tuple(partitions) for name, partitions in target["standby"].items()},
        )
        for member_id, target in kafka.items()
    }


def given_stored() -> list[dict[str, Any]]:
    """Returns the inputs of the stored cases: topologies, then groups."""
    groups = [group for seed in LIVES for group in random_lives(seed)]
    return [random_case(seed).given() for seed in TOPOLOGIES] + list(map(given_group, groups))


def write(results: Sequence[Mapping[str, Any]]) -> None:
    """Stores Kafka's results for `given_stored`."""
    lines = [json.dumps(each, separators=(",", ":")) for each in results]
    GOLDEN.write_text("".join(f"{line}\n" for line in lines))


def stored() -> Iterator[dict[str, Any]]:
    """Yields the stored results: of topologies, then of groups."""
    for line in GOLDEN.read_text().splitlines():
        result: dict[str, Any] = json.loads(line)
        yield result
