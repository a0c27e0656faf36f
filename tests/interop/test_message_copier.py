"""Tests with TransactionalMessageCopier, a program of Apache's system tests. Copiers or the broker
restart during the copy.

No record may be lost, duplicated or reordered, neither for a read_committed consumer during the
copy nor for a consumer afterwards.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

import pytest

from tests import java
from tests.brokers import Broker
from tests.chance import chance
from tests.interop.cluster import Cluster
from tests.interop.copying import COPIER, CommittedReader, Copier, Copying, assert_once, seed
from tests.interop.programs import ending

pytestmark = [pytest.mark.interop, pytest.mark.proves("transactions 43")]

SETTINGS = {"offsets.topic.num.partitions": "5", "transaction.state.log.num.partitions": "5"}


class Case(NamedTuple):
    """A test case: which process restarts, how it restarts, and how the copiers read."""

    who: str
    hard: bool
    in_order: bool
    group_mode: bool = False
    group_metadata: bool = False
    random_aborts: bool = False

    def __str__(self) -> str:
        words = [("hard" if self.hard else "clean"), self.who]
        words += [name for name in self._fields[2:] if getattr(self, name)]
        return "-".join(words)


# CI runs each value of each column once; `soak` runs all combinations.
CASES = [
    Case("copiers", hard=True, in_order=True, group_metadata=True, random_aborts=True),
    Case("copiers", hard=False, in_order=False, group_mode=True, group_metadata=True),
    Case("broker", hard=True, in_order=False),
    Case("broker", hard=False, in_order=True, group_mode=True, group_metadata=True),
]
ALL_CASES = [
    Case(who, hard, in_order, group_mode=mode, group_metadata=mode or metadata)
    for who in ("copiers", "broker")
    for hard in (True, False)
    for in_order in (True, False)
    for mode, metadata in ((False, False), (False, True), (True, True))
]


def bounce(
    case: Case, broker: Broker, copiers: list[Copier], step: int, chance: random.Random
) -> None:
    """Waits until each copier has made random progress, and then restarts the copiers or the
    broker."""
    for copier in copiers:
        copier.until_copied(chance.randint(1, step))
        if case.who == "copiers":
            copier.kill() if case.hard else copier.program.stop()
            copier.start()
    if case.who == "broker":
        broker.kill() if case.hard else broker.stop()
        broker.start()


def copy(
    broker: Broker,
    name: str,
    case: Case,
    records: int,
    size: int,
    bounces: int,
    chance: random.Random,
) -> None:
    """Copies all records during ``bounces`` restarts. Compares the copies with the original
    records."""
    cluster = Cluster(broker.bootstrap)
    # Records are in order only within a partition. In a group of two copiers with one partition,
    # one copier would be idle.
    sources, targets = (1, 1) if case.in_order else (2, 3)
    source, target = f"{name}-in", f"{name}-out"
    cluster.create_topic(source, sources)
    cluster.create_topic(target, targets)
    sent = seed(broker.bootstrap, source, sources, records)
    copying = Copying(
        source, target, name, size,
        group_mode=case.group_mode,
        group_metadata=case.group_metadata,
        random_aborts=case.random_aborts,
    )  # fmt: skip
    copiers = [Copier(copying, broker.bootstrap, number) for number in range(sources)]
    with (
        CommittedReader(broker.bootstrap, target, targets) as along,
        ending(*copiers),
    ):
        for _ in range(bounces):
            bounce(case, broker, copiers, records // sources // (bounces + 1), chance)
        for copier in copiers:
            copier.until_done()
        along.until_read(records)
    with CommittedReader(broker.bootstrap, target, targets) as after:
        after.until_read(records)
    for who, read in (("read along", along.values), ("read afterwards", after.values)):
        assert_once(sent, read, in_order=case.in_order, who=who)
    ends = {(source, place): len(values) for place, values in enumerate(sent)}
    assert cluster.committed(name) == ends, "the offsets moved with the data"


def test_copier_copies_every_record_once_when_nothing_restarts(broker: Broker, name: str) -> None:
    cluster = Cluster(broker.bootstrap)
    for topic in (f"{name}-in", f"{name}-out"):
        cluster.create_topic(topic, 1)
    sent = seed(broker.bootstrap, f"{name}-in", 1, 500)
    copying = Copying(f"{name}-in", f"{name}-out", name, 100, random_aborts=True)
    # The class archive (AppCDS) of this run serves the copiers of the other tests.
    done = java.run(java.KAFKA_NEW, COPIER, *copying.arguments(broker.bootstrap, 0), own_jvm=True)
    assert '"stage":"ShutdownComplete"' in done.stdout, done.stdout + done.stderr
    with CommittedReader(broker.bootstrap, f"{name}-out", 1) as reader:
        reader.until_read(500)
    assert_once(sent, reader.values, in_order=True, who="read afterwards")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_record_is_copied_once_when_copiers_or_the_broker_restart(
    brokers: Callable[..., Broker], name: str, case: Case
) -> None:
    # A member learns of a rebalance from its next heartbeat, up to three seconds later.
    bounces = 1 if case.group_mode else 3
    copy(brokers(SETTINGS), name, case, 5_000, 250, bounces, chance())


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", ALL_CASES, ids=str)
def test_copies_of_up_to_100_000_records_are_complete_when_processes_restart(
    brokers: Callable[..., Broker], name: str, case: Case
) -> None:
    records = 33_000 if case.in_order else 100_000
    copy(brokers(), name, case, records, 750, 3, chance())


@pytest.mark.smoke
@pytest.mark.planted("copied messages")
@pytest.mark.parametrize(
    ("read", "found"),
    [
        ([["a", "b", "a"], ["c"]], "1 records came out twice"),
        ([["a"], ["c"]], "1 records did not come out"),
        ([["b", "a"], ["c"]], "another order"),
        ([["a", "b"], ["c", "d"]], "records that nobody sent"),
    ],
)
def test_copy_checker_detects_planted_faults(read: list[list[str]], found: str) -> None:
    with pytest.raises(AssertionError, match=found):
        assert_once([["a", "b"], ["c"]], read, in_order=True, who="planted")
