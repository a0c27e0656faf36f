"""Tests the log lines of the controller: events that occur within a short time share a line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from structlog.testing import capture_logs

from broker.cluster.controller.controller_lines import LINES_MAX, NAMES_MAX, ControllerLines
from broker.time import Time
from controller.events import (
    BrokerJoined,
    BrokerLeft,
    Cause,
    ControllerReady,
    DeletionQueued,
    DeletionStarted,
    Event,
    LogDirsFailed,
    NoLeader,
    OtherController,
    ReassignmentDone,
    ReassignmentStarted,
    RequestRefused,
    ShutdownAsked,
    StateLost,
    StateWritten,
    TopicAdded,
    TopicRemoved,
)
from controller.states import PartitionState
from controller.values import Assignment
from tests.broker.edge import eventually


def moved(index: int, leader: int = 2, before: int = 1, cause: Cause = Cause.OFFLINE) -> Event:
    isr = (leader,)
    return StateWritten("t", index, PartitionState.ONLINE, cause, leader, before, 3, isr, (1, 2))


def lines_of(events: Iterable[Event]) -> list[dict[str, Any]]:
    lines = ControllerLines(Time())
    with capture_logs() as written:
        for each in events:
            lines.observe(each)
        lines.write_lines()
    return [dict(each) for each in written]


async def test_many_leader_changes_are_logged_as_one_line_per_new_leader() -> None:
    events = [moved(index, leader=2 + index % 2) for index in range(1000)]
    first, second = lines_of(events)
    assert (first["leader"], first["before"], first["count"]) == (2, 1, 500)
    assert first["reason"] == "leader or ISR member failed"
    assert first["partitions"] == [f"t-{index}" for index in range(0, 2 * NAMES_MAX, 2)]
    assert (second["leader"], second["count"]) == (3, 500)


async def test_single_leader_change_is_logged_without_a_count() -> None:
    (line,) = lines_of([moved(7, cause=Cause.PREFERRED)])
    assert line == {
        "event": "partition leader changed",
        "log_level": "info",
        "leader": 2,
        "before": 1,
        "reason": "preferred leader election requested",
        "partitions": ["t-7"],
    }


async def test_controller_log_lines_are_written_by_a_timer() -> None:
    lines = ControllerLines(Time())
    with capture_logs() as written:
        lines.observe(BrokerLeft(3, 9))
        await eventually(lambda: written)
        lines.observe(BrokerLeft(3, 10))
        await eventually(lambda: len(written) == 2)


async def test_number_of_controller_log_lines_per_interval_is_bounded() -> None:
    written = lines_of([BrokerLeft(each, each) for each in range(LINES_MAX + 7)])
    assert len(written) == LINES_MAX + 1
    assert written[-1]["events"] == 7


@pytest.mark.parametrize(
    "event",
    [
        moved(0, leader=1, before=1, cause=Cause.ISR),
        moved(0, leader=-1),
        moved(0, before=-1, cause=Cause.CREATED),
        StateLost("t", 0),
        DeletionStarted("t"),
        DeletionQueued("t", ()),
    ],
    ids=lambda each: type(each).__name__,
)
async def test_controller_events_that_do_not_matter_to_operators_are_not_logged(
    event: Event,
) -> None:
    assert lines_of([event]) == []


@pytest.mark.parametrize(
    ("event", "level", "said"),
    [
        (moved(0, cause=Cause.UNCLEAN), "warning", {"leader": 2}),
        (NoLeader("t", 0, (3,), (3, 4)), "warning", {"isr": (3,), "partitions": ["t-0"]}),
        (OtherController("t", 0, 9), "warning", {"epoch": 9}),
        (
            LogDirsFailed(2, (("t", 0), ("t", 1))),
            "warning",
            {"broker": 2, "partitions": ["t-0", "t-1"]},
        ),
        (ControllerReady(4, (1, 2), 3, 9), "info", {"brokers": (1, 2), "partitions": 9}),
        (BrokerJoined(2, 77, bounced=True), "info", {"event": "broker restarted"}),
        (BrokerJoined(2, 77, bounced=False), "info", {"event": "broker joined"}),
        (BrokerLeft(2, 77), "warning", {"broker": 2, "epoch": 77}),
        (ShutdownAsked(2), "info", {"broker": 2}),
        (RequestRefused(2, "StopReplica", 11), "warning", {"error": "STALE_CONTROLLER_EPOCH"}),
        (TopicAdded("t", 3), "info", {"topics": ["t"]}),
        (TopicRemoved("t"), "info", {"topics": ["t"]}),
        (DeletionQueued("t", (4,)), "info", {"brokers": (4,), "topics": ["t"]}),
        (ReassignmentStarted("t", 0, Assignment((1,)), (1,)), "info", {"partitions": ["t-0"]}),
        (ReassignmentDone("t", 0, (1,)), "info", {"partitions": ["t-0"]}),
    ],
    ids=lambda each: type(each).__name__,
)
async def test_controller_event_is_logged_with_its_level_and_fields(
    event: Event, level: str, said: dict[str, Any]
) -> None:
    (line,) = lines_of([event])
    assert line["log_level"] == level
    assert said.items() <= line.items()
