"""Clusters of three brokers on a real ZooKeeper: either only Muster, or Muster with Apache Kafka
3.9.2 or 0.10.2.2.

Producers of each kind and groups run all the time. During this load, brokers are restarted, killed
and paused, `/controller` is deleted, and replicas move. cluster_loads.py states the guarantees that
are checked. At the end, all replicas must have the same bytes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import waiting
from tests.interop.cluster_failures import FAILURES, OF_BROKERS, controller_moves_to
from tests.interop.cluster_loads import PARTITIONS, Group, Idempotent, Load, Plain, Transactional
from tests.interop.zookeeper_cluster import KAFKA, MUSTER, OLD_KAFKA, ZooKeeperCluster, running

pytestmark = [pytest.mark.interop, pytest.mark.proves("clusters 29")]

THREE = {1: MUSTER, 2: MUSTER, 3: MUSTER}
TWO_AND_KAFKA = {1: MUSTER, 2: MUSTER, 3: KAFKA}
ONE_AND_KAFKAS = {1: KAFKA, 2: KAFKA, 3: MUSTER}
TWO_AND_OLD = {1: MUSTER, 2: MUSTER, 3: OLD_KAFKA}
ONE_AND_OLD = {1: OLD_KAFKA, 2: OLD_KAFKA, 3: MUSTER}


@dataclass(frozen=True)
class Scenario:
    """A test with one cluster: the kind of each broker (Muster or a version of Kafka), the broker
    that is the controller before each step, and the steps."""

    kinds: Mapping[int, str]
    controller: int
    steps: Sequence[tuple[str, int]]
    """Each step is the name of a failure in cluster_failures.py, and the broker that fails."""


EACH_KIND_ONCE = {
    "three Musters": Scenario(
        THREE, 1, [("clean bounce", 2), ("hard bounce", 1), ("pause", 3), ("new election", 0)]
    ),
    "a Kafka among Musters": Scenario(
        TWO_AND_KAFKA, 1, [("hard bounce", 3), ("pause", 1), ("reassignment", 2)]
    ),
    "a Muster among Kafkas": Scenario(
        ONE_AND_KAFKAS, 3, [("clean bounce", 3), ("quick bounce", 3), ("controller moves", 2)]
    ),
    "an old Kafka among Musters": Scenario(
        TWO_AND_OLD, 3, [("hard bounce", 2), ("clean bounce", 3)]
    ),
}


@pytest.mark.smoke
def test_no_record_is_lost_when_the_leader_of_a_partition_is_killed(tmp_path: Path) -> None:
    run(Scenario(THREE, 1, [("hard bounce", 2)]), tmp_path)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("scenario", EACH_KIND_ONCE.values(), ids=EACH_KIND_ONCE.keys())
def test_acknowledged_records_survive_each_kind_of_failure(
    scenario: Scenario, tmp_path: Path
) -> None:
    run(scenario, tmp_path)


CLUSTERS = {
    "MMM": THREE,
    "MMK": TWO_AND_KAFKA,
    "KKM": ONE_AND_KAFKAS,
    "MMO": TWO_AND_OLD,
    "OOM": ONE_AND_OLD,
}


def one_of_each_kind(kinds: Mapping[int, str]) -> list[int]:
    return list({kind: broker for broker, kind in kinds.items()}.values())


def all_failures(kinds: Mapping[int, str], controller: int) -> list[tuple[str, int]]:
    """Returns pairs: a failure to test, and the broker on which it is tested. A failure of a single
    broker is tested on the controller and on another broker. A failure of the whole cluster is
    tested once."""
    other = controller % len(kinds) + 1
    return [
        (failure, broker)
        for failure in FAILURES
        for broker in ((controller, other) if failure in OF_BROKERS else (other,))
        if failure != "quick bounce" or kinds[broker] == MUSTER  # a Kafka exits at its old node
    ]


MATRIX = [
    pytest.param(
        Scenario(kinds, led, all_failures(kinds, led)), id=f"{name}, controller {kinds[led]}"
    )
    for name, kinds in CLUSTERS.items()
    for led in one_of_each_kind(kinds)
]
"""The scenarios. In each kind of cluster, each kind of broker is the controller once."""


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("scenario", MATRIX)
def test_acknowledged_records_survive_failures_with_each_controller(
    scenario: Scenario, tmp_path: Path
) -> None:
    run(scenario, tmp_path)


def run(scenario: Scenario, folder: Path) -> None:
    began = time.monotonic()
    with running(folder, scenario.kinds) as cluster:
        loads = _loads(cluster)
        for load in loads:
            load.start()
        for load in loads:
            load.until_goes_on()
        for failure, broker in scenario.steps:
            controller_moves_to(cluster, scenario.controller)
            FAILURES[failure](cluster, broker)
            cluster.until_settled()
            for load in loads:
                load.until_goes_on()
            print(f"{time.monotonic() - began:.0f} s: {failure} of {broker} is over", flush=True)
        _end(loads)
        waiting.until("all replicas are alike", lambda: _are_alike(cluster), 60)
        _stop_all(cluster)
        # A leader that stops hands over its leaderships. A follower of the new leader may be
        # stopped before it is in sync again: it then lacks the last records, but has no different
        # ones.
        for topic, partition in _partitions(cluster):
            logs = cluster.logs(topic, partition)
            longest = max(logs.values(), key=len)
            sizes = {broker: len(log) for broker, log in logs.items()}
            assert all(longest.startswith(log) for log in logs.values()), (topic, partition, sizes)


def _loads(cluster: ZooKeeperCluster) -> list[Load]:
    plain = Plain(cluster)
    loads: list[Load] = [plain, Group(cluster, plain, static=False)]
    if not cluster.is_old:
        loads += [Idempotent(cluster), Transactional(cluster), Group(cluster, plain, static=True)]
    for load in loads:
        if not isinstance(load, Group):
            cluster.create(load.name, PARTITIONS, len(cluster.kinds))
    return loads


def _end(loads: Sequence[Load]) -> None:
    """Ends the producers. Ends each group after it has read all records. Then checks the guarantees
    of all loads."""
    groups = [load for load in loads if isinstance(load, Group)]
    for load in loads:
        if load not in groups:
            load.end()
    for group in groups:
        group.until_all_read()
        if group.is_static:
            _come_back(group)
        group.end()
    for load in loads:
        load.check()


def _come_back(group: Group) -> None:
    """Restarts a static member within its session timeout. Checks that the member gets an
    assignment, and that the assignment of the other member does not change."""
    before = group.assigned[2]
    again = group.assigned[1] + 1
    group.come_back(1)
    waiting.until("the member is back", lambda: group.assigned[1] == again, 60)
    assert group.assigned[2] == before


def _partitions(cluster: ZooKeeperCluster) -> list[tuple[str, int]]:
    """Returns the partitions that have a replica on any broker."""
    found = set()
    for broker in cluster.kinds:
        for log in cluster.directory(broker).glob("*-*/*.log"):
            topic, _, index = log.parent.name.rpartition("-")
            if index.isdigit():  # a Kafka keeps ...-delete for a minute
                found.add((topic, int(index)))
    return sorted(found)


def _are_alike(cluster: ZooKeeperCluster) -> bool:
    for topic, partition in _partitions(cluster):
        logs = cluster.logs(topic, partition)
        assert len(logs) == len(cluster.kinds), (topic, partition, set(logs))
        sizes = {broker: len(log) for broker, log in logs.items()}
        assert len(set(logs.values())) == 1, (topic, partition, sizes)
    return True


def _stop_all(cluster: ZooKeeperCluster) -> None:
    for broker in list(cluster.processes):
        cluster.stop(broker)
