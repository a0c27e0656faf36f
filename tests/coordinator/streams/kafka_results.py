"""Stored results of Kafka 4.3.1's classes for random groups and topologies, so that tests need no
Java.

tests/interop/test_streams_classes.py writes the file with ``MUSTER_GOLDEN=write``, and compares
many more cases.
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
"""The seeds of the random groups whose results are stored."""


def given_group(group: TaskGroup) -> dict[str, Any]:
    """Returns the group as input of StreamsClasses.java."""
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
    """Returns the targets in the output of StreamsClasses.java, by member id."""
    return {
        member_id: TaskRoles(
            {name: tuple(partitions) for name, partitions in target["active"].items()},
            {name: tuple(partitions) for name, partitions in target["standby"].items()},
        )
        for member_id, target in kafka.items()
    }


def given_stored() -> list[dict[str, Any]]:
    """Returns the inputs for which Kafka's results are stored: topologies, and then groups."""
    groups = [group for seed in LIVES for group in random_lives(seed)]
    return [random_case(seed).given() for seed in TOPOLOGIES] + list(map(given_group, groups))


def write(results: Sequence[Mapping[str, Any]]) -> None:
    lines = [json.dumps(each, separators=(",", ":")) for each in results]
    GOLDEN.write_text("".join(f"{line}\n" for line in lines))


def stored() -> Iterator[dict[str, Any]]:
    """Yields the stored results: first for topologies, then for groups."""
    for line in GOLDEN.read_text().splitlines():
        result: dict[str, Any] = json.loads(line)
        yield result
