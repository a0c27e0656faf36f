"""Tests which requests remain in the queue of a controller channel after superseded requests were
removed."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from broker.cluster.controller import superseded
from broker.cluster.controller.superseded import load
from controller.requests import (
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    LeaderAndIsrTopic,
    Send,
    ShownPartition,
    ShownTopic,
    StoppedPartition,
    StoppedTopic,
    StopReplicaRequest,
    UpdateMetadataRequest,
)

HEAD = (2, 5, 1, 1)


def without_superseded(requests: Sequence[Send]) -> list[Send]:
    """Removes superseded requests in one step. Returns the remaining requests."""
    work = superseded.without_superseded(requests)
    while True:
        try:
            next(work)
        except StopIteration as end:
            left: list[Send] = end.value
            return left


def led(*partitions: tuple[str, int, int], new: bool = False) -> LeaderAndIsrRequest:
    """Returns a LeaderAndIsr request. Each argument is topic, partition and leader epoch."""
    topics = [
        LeaderAndIsrTopic(
            name,
            None,
            [LeaderAndIsrPartition(index, 1, 2, epoch, (2,), 0, (2,), (), (), False, new)],
        )
        for name, index, epoch in partitions
    ]
    return LeaderAndIsrRequest(*HEAD, topics, ())


def shown(*partitions: tuple[str, int, int], leader: int = 2) -> UpdateMetadataRequest:
    topics = [
        ShownTopic(name, None, [ShownPartition(index, 1, leader, epoch, (2,), 0, (2,), ())])
        for name, index, epoch in partitions
    ]
    return UpdateMetadataRequest(*HEAD, (), topics)


def stopped(name: str, *, delete: bool) -> StopReplicaRequest:
    return StopReplicaRequest(*HEAD, [StoppedTopic(name, [StoppedPartition(0, -1, delete)])])


def summary(requests: Sequence[Send]) -> list[str]:
    """Returns a text for each request: the initial of its name, and topic, partition and epoch of
    each of its partitions."""
    found = []
    for request in requests:
        words = [type(request).__name__[0]]
        for topic in request.topics:
            for each in topic.partitions:
                of_it = each.delete if isinstance(each, StoppedPartition) else each.leader_epoch
                words.append(f"{topic.name}{each.partition}:{of_it}")
        found.append(" ".join(words))
    return found


T1, T2 = ("t", 0, 1), ("t", 0, 2)


@pytest.mark.parametrize(
    ("requests", "left"),
    [
        ([led(T1), led(T2)], ["L t0:2"]),
        ([led(T1, ("u", 0, 1)), led(T2)], ["L u0:1", "L t0:2"]),
        ([shown(T1), shown(T2)], ["U t0:2"]),
        ([shown(T1), shown(("t", 1, 1)), shown(("u", 0, 1))], ["U u0:1 t1:1 t0:1"]),
        ([shown(), led(T1), shown(T1)], ["U", "L t0:1", "U t0:1"]),
        (
            [shown(), led(T1), shown(T1), led(T2), shown(T2)],
            ["U t0:1", "L t0:2", "U t0:2"],
        ),
        (
            [shown(T1, ("t", 1, 1)), led(T2), shown(("t", 1, 2)), led(T1), shown(("t", 1, 3))],
            ["U t0:1 t1:1", "L t0:1", "U t1:3"],
        ),
        (
            [shown(T1, ("t", 1, 1)), led(T1), shown(("t", 1, 2), ("t", 2, 2)), shown(T2)],
            ["U t0:1 t1:1", "L t0:1", "U t0:2 t1:2 t2:2"],
        ),
        (
            [shown(T1), led(T1), shown(T1, leader=-2), stopped("u", delete=True), shown(T2)],
            ["U", "L t0:1", "U t0:1", "S u0:True", "U t0:2"],
        ),
        ([shown(T1), shown(T2, leader=-2)], ["U t0:2"]),
        ([shown(T1, leader=-2), shown(T2)], ["U t0:1", "U t0:2"]),
        ([stopped("t", delete=False), stopped("t", delete=True)], ["S t0:True"]),
        ([stopped("t", delete=True), stopped("t", delete=False)], ["S t0:True", "S t0:False"]),
        ([led(T1), stopped("t", delete=True), led(T2)], ["S t0:True", "L t0:2"]),
        ([stopped("t", delete=False), led(T2)], ["S t0:False", "L t0:2"]),
    ],
)  # fmt: skip
def test_superseded_control_requests_are_removed_from_the_queue(
    requests: list[Send], left: list[str]
) -> None:
    assert summary(without_superseded(requests)) == left


def test_merged_leader_and_isr_requests_keep_the_is_new_flag_of_a_partition() -> None:
    [left] = without_superseded([led(T1, new=True), led(T2)])
    assert isinstance(left, LeaderAndIsrRequest)
    assert left.topics[0].partitions[0].is_new


@pytest.mark.parametrize("seed", range(20))
def test_queue_keeps_only_the_last_control_request_of_each_partition(seed: int) -> None:
    chance = Random(seed)
    places = [(name, index) for name in "tuv" for index in range(4)]
    requests: list[Send] = []
    last: dict[tuple[str, str, int], int] = {}
    for epoch in range(400):
        some = [(*place, epoch) for place in chance.sample(places, chance.randint(1, 3))]
        kind = chance.choice((led, shown))
        requests.append(kind(*some))
        last |= {(kind(*some).__class__.__name__[0], name, index): epoch for name, index, _ in some}
    left = without_superseded(requests)
    found = {
        (type(request).__name__[0], topic.name, each.partition): each.leader_epoch
        for request in left
        if not isinstance(request, StopReplicaRequest)
        for topic in request.topics
        for each in topic.partitions
    }
    assert found == last
    assert sum(map(load, left)) - len(left) <= len(last) + len(places), "the first of each too"
    assert len(left) <= 2 * len(places) + 1


@pytest.mark.parametrize("seed", range(20))
def test_merged_update_metadata_requests_keep_all_partitions_of_a_topic(seed: int) -> None:
    """If a client saw too few partitions, it would send the records of a key to another
    partition."""
    chance = Random(seed)
    there = dict.fromkeys("tuv", 0)
    requests: list[Send] = []
    counts = {(name, 0) for name in there}
    for epoch in range(300):
        name = chance.choice("tuv")
        if there[name] < 12 and chance.random() < 0.1:
            grown = there[name] + chance.randint(1, 4)
            requests.append(shown(*[(name, each, epoch) for each in range(there[name], grown)]))
            there[name] = grown
            counts.add((name, grown))
        elif there[name]:
            some = chance.sample(range(there[name]), chance.randint(1, there[name]))
            kind = chance.choice((led, shown))
            requests.append(kind(*[(name, each, epoch) for each in some]))
    seen: dict[str, set[int]] = {name: set() for name in there}
    for request in without_superseded(without_superseded(requests)):
        if isinstance(request, UpdateMetadataRequest):
            for topic in request.topics:
                seen[topic.name].update(each.partition for each in topic.partitions)
            assert {(name, len(each)) for name, each in seen.items()} <= counts
            assert all(sorted(each) == [*range(len(each))] for each in seen.values())
    assert {name: len(each) for name, each in seen.items()} == there
