"""Muster's task assignor and topologies of streams groups have the same results as the classes of
Apache Kafka 4.3.1. The version is fixed, because 4.4 has another assignor."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests import java
from tests.coordinator.assignors import kafka_sticky
from tests.coordinator.assignors.kafka_sticky import JAVA
from tests.coordinator.assignors.task_groups import random_lives
from tests.coordinator.streams import kafka_results
from tests.coordinator.streams.topologies import difference, random_case

pytestmark = pytest.mark.interop

PROGRAM = Path(__file__).parent / "programs" / "StreamsClasses.java"
TOPOLOGIES = 1_500
LIVES = 250


def apache(inputs: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns the result of Apache's classes for each input."""
    done = subprocess.run(
        java.source("kafka-4.3.1", PROGRAM),
        input="".join(f"{json.dumps(each)}\n" for each in inputs),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_random_topologies_are_configured_as_by_kafkas_classes() -> None:
    cases = [random_case(seed) for seed in range(TOPOLOGIES)]
    seen: Counter[Any] = Counter()
    for seed, (case, kafka) in enumerate(
        zip(cases, apache(case.given() for case in cases), strict=True)
    ):
        assert difference(case, kafka) is None, seed
        seen[kafka.get("error") or kafka.get("status")] += 1
    ready, invalid = seen[None], seen["StreamsInvalidTopologyException"]
    assert min(ready, invalid, seen[1], seen[2], seen[3]) > 50, seen


def test_model_of_the_task_assignor_returns_the_targets_of_kafkas_classes() -> None:
    groups = [group for seed in range(LIVES) for group in random_lives(seed)]
    results = apache(map(kafka_results.given_group, groups))
    for number, (group, kafka) in enumerate(zip(groups, results, strict=True)):
        expected = kafka_sticky.assign(*group, JAVA)
        assert kafka_results.targets_of(kafka) == expected, number


def test_stored_results_of_kafkas_streams_classes_equal_their_current_results() -> None:
    results = apache(kafka_results.given_stored())
    if os.environ.get("MUSTER_GOLDEN") == "write":
        kafka_results.write(results)
    assert list(kafka_results.stored()) == results
