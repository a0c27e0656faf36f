"""Tests that the assignment of replicas to brokers and racks equals that of Kafka."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest

from broker.cluster.topics.replica_assignment import Replicas, alternating, assign, start_of

FIVE = dict.fromkeys(range(5))
SIX = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}

OF_KAFKA = Path(__file__).parents[3] / "data" / "cluster" / "assignments_of_kafka_3_9_2.csv"
"""Replica assignments for random clusters, computed by ``AdminUtils.assignReplicasToBrokers`` of
Kafka 3.9.2. For each cluster, the start index and the first replica shift have the same value."""


def test_replica_assignment_equals_that_of_kafka_for_the_same_start_index() -> None:
    with OF_KAFKA.open() as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        racks: dict[int, str | None] = {}
        for broker in row["racks"].split():
            broker_id, _, rack = broker.partition("@")
            racks[int(broker_id)] = rack or None
        partitions, factor, start, first = (
            int(row[name]) for name in ("partitions", "factor", "start", "first")
        )
        found = assign(racks, partitions, factor, start=start, shift=start, first=first)
        assert found == [
            tuple(int(broker) for broker in each.split("-")) for each in row["replicas"].split()
        ], row
    assert len(rows) == 80


def test_assignment_over_five_brokers_equals_the_documented_example_of_kafka() -> None:
    """The comment of AdminUtils contains this example, which starts at broker 0 with replica shift
    0."""
    assert assign(FIVE, 10, 3, start=0, shift=0) == [
        (0, 1, 2),
        (1, 2, 3),
        (2, 3, 4),
        (3, 4, 0),
        (4, 0, 1),
        (0, 2, 3),
        (1, 3, 4),
        (2, 4, 0),
        (3, 0, 1),
        (4, 1, 2),
    ]


def test_assignment_uses_broker_ids_that_are_not_consecutive() -> None:
    assert assign({7: None, 3: None}, 3, 2, start=1, shift=0) == [(7, 3), (3, 7), (7, 3)]


def test_assignment_over_one_broker_places_all_replicas_on_the_broker() -> None:
    assert assign({9: None}, 2, 1, start=0, shift=0) == [(9,), (9,)]


def test_assignment_of_added_partitions_continues_the_existing_assignment() -> None:
    """Each added partition has the same first replica as if all partitions had been assigned at
    once."""
    whole = assign(FIVE, 12, 3, start=2, shift=2)

    assert start_of(FIVE, whole[0][0]) == 2
    assert assign(FIVE, 5, 3, start=2, shift=2, first=0) == whole[:5]
    assert [each[0] for each in assign(FIVE, 7, 3, start=2, shift=2, first=5)] == [
        each[0] for each in whole[5:]
    ]


def test_assignment_starts_at_the_next_broker_when_the_start_broker_was_removed() -> None:
    assert start_of({1: None, 2: None, 5: None}, 3) == 2
    assert start_of({1: None, 2: None, 5: None}, 6) == 0


def test_broker_order_alternates_between_racks() -> None:
    """The example is that of testGetRackAlternatedBrokerListAndAssignReplicas in Kafka's
    AdminRackAwareTest."""
    assert alternating(SIX) == [0, 3, 1, 5, 4, 2]
    assert alternating({each: SIX[each] for each in SIX if each != 5}) == [0, 3, 1, 4, 2]


def test_assignment_over_racks_equals_the_example_of_kafka() -> None:
    """The example is that of Kafka's AdminRackAwareTest: six brokers in three racks, seven
    partitions, start index 0."""
    assert assign(SIX, 7, 3, start=0, shift=0) == [
        (0, 3, 1),
        (3, 1, 5),
        (1, 5, 4),
        (5, 4, 2),
        (4, 2, 0),
        (2, 0, 3),
        (0, 4, 2),
    ]


@pytest.mark.parametrize("start", range(6))
def test_assignment_over_racks_is_balanced_over_racks_and_brokers(start: int) -> None:
    found = assign(SIX, 12, 3, start=start, shift=start)

    assert all({SIX[broker] for broker in each} == set(SIX.values()) for each in found)
    assert Counter(each[0] for each in found) == dict.fromkeys(SIX, 2)
    assert Counter(broker for each in found for broker in each) == dict.fromkeys(SIX, 6)


def test_replicas_are_on_different_brokers_when_there_are_more_replicas_than_racks() -> None:
    found = assign(SIX, 6, 5, start=0, shift=0)

    assert all(len(set(each)) == 5 for each in found)
    assert all({SIX[broker] for broker in each[:3]} == set(SIX.values()) for each in found)


def test_racks_are_ignored_when_the_rack_of_a_broker_is_unknown() -> None:
    some: dict[int, str | None] = {**SIX, 5: None}

    assert assign(some, 6, 3, start=0, shift=0) == assign(
        dict.fromkeys(SIX), 6, 3, start=0, shift=0
    )


def _shape(found: list[Replicas]) -> Counter[int]:
    return Counter(broker for each in found for broker in each)


def test_replicas_are_spread_evenly_when_brokers_have_no_racks() -> None:
    found = assign(dict.fromkeys(range(6)), 12, 3, start=4, shift=1)

    assert _shape(found) == dict.fromkeys(range(6), 6)
