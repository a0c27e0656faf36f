"""Tests the metrics of the controller: leader elections by cause, and the time in which partitions
had no leader."""

from __future__ import annotations

from typing import Any

from broker.cluster.controller.controller_totals import LED, ControllerTotals
from controller.events import BrokerLeft, Cause, ControllerReady, Event, NoLeader, StateWritten
from controller.states import PartitionState
from protocol.now import Now


class _Time:
    def __init__(self) -> None:
        self.ms = 1_000

    def now(self) -> Now:
        return Now(self.ms, self.ms)


def _moved(cause: Cause, leader: int = 2, before: int = 1, index: int = 0) -> Event:
    isr = (leader,)
    return StateWritten("t", index, PartitionState.ONLINE, cause, leader, before, 3, isr, (1, 2))


def _totals() -> tuple[ControllerTotals, Any]:
    time: Any = _Time()
    return ControllerTotals(time), time


def test_leader_elections_are_counted_by_cause() -> None:
    totals, _ = _totals()
    for cause in (Cause.OFFLINE, Cause.OFFLINE, Cause.UNCLEAN, Cause.BALANCE):
        totals.observe(_moved(cause))
    totals.observe(_moved(Cause.ISR, leader=1))
    totals.observe(_moved(Cause.OFFLINE, leader=1))
    totals.observe(_moved(Cause.CREATED))
    totals.observe(_moved(Cause.OFFLINE, leader=-1))
    totals.observe(BrokerLeft(3, 9))
    assert totals.leader_changes == {
        **dict.fromkeys(LED.values(), 0), "lost": 2, "unclean": 1, "balance": 1,
    }  # fmt: skip


def test_leaderless_time_of_a_partition_is_counted_when_its_leader_is_elected() -> None:
    totals, time = _totals()
    totals.observe(NoLeader("t", 0, (1,), (1, 2)))
    time.ms += 2_000
    totals.observe(NoLeader("t", 0, (1,), (1, 2)))
    totals.observe(_moved(Cause.OFFLINE, leader=-1))
    time.ms += 3_000
    totals.observe(_moved(Cause.OFFLINE, leader=1, before=-1))
    assert totals.leaderless_ms == 5_000
    totals.observe(_moved(Cause.OFFLINE))
    assert totals.leaderless_ms == 5_000


def test_leaderless_time_of_a_previous_controller_term_is_not_counted() -> None:
    totals, time = _totals()
    totals.observe(NoLeader("t", 0, (1,), (1, 2)))
    totals.observe(ControllerReady(2, (1, 2), 1, 1))
    time.ms += 3_000
    totals.observe(_moved(Cause.OFFLINE, leader=1, before=-1))
    assert (totals.terms, totals.leaderless_ms) == (1, 0)
