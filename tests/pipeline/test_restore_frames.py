"""What the history says of offsets at a time, and the plan that is made of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame

from pipeline.contract import COMMIT, COMMIT_TOMBSTONE, DAMAGED, GROUP
from pipeline.errors import PipelineError
from pipeline.names import regex
from pipeline.repairs.plan import Bounds, Key, Position
from pipeline.repairs.restore import (
    AS_OF,
    COMMITTED,
    DELETED,
    LATER,
    Then,
    as_of,
    collected,
    plan_restore,
)

pytestmark = pytest.mark.pipeline

Frame = Callable[..., DataFrame]
KEY = Key("billing", "orders", 0)
BOUNDS = {("orders", number): Bounds(0, 100) for number in range(4)}


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(1_767_225_600 + seconds, UTC)


def row(log_offset: int, kind: str, seconds: float | None, **more: Any) -> dict[str, Any]:
    made = {"log_partition": 0, "log_offset": log_offset, "kind": kind, **more}
    if kind in (COMMIT, COMMIT_TOMBSTONE):
        made = {"group_id": KEY.group, "topic": KEY.topic, "partition": KEY.partition, **made}
    return made | ({} if seconds is None else {"written_at": at(seconds)})


def state_at(seconds: float, events: DataFrame, *groups: str) -> dict[Key, tuple[str, Any]]:
    found = collected(as_of(events, at(seconds), groups or None))
    return {key: (then.state, then.position and then.position[0]) for key, then in found.items()}


def test_the_last_commit_at_or_before_a_time_holds(frame: Frame) -> None:
    events = frame(
        [
            row(0, GROUP, 0, group_id=KEY.group),
            row(1, COMMIT, 10, committed_offset=5, leader_epoch=2, metadata="m"),
            row(2, COMMIT, 20, committed_offset=3),
            row(3, COMMIT_TOMBSTONE, 30),
            row(4, COMMIT, 40, committed_offset=9),
        ]
    )
    assert as_of(events, at(0)).schema.names == AS_OF.names
    told = [state_at(seconds, events)[KEY] for seconds in (9.999, 25, 30)]
    assert told == [(LATER, None), (COMMITTED, 3), (DELETED, None)]
    [then] = collected(as_of(events, at(10))).values()
    assert then == Then(COMMITTED, Position(5, "m", 2), True, False)


def test_the_brokers_time_counts_and_the_logs_order_not_the_clients(frame: Frame) -> None:
    events = frame(
        [
            row(0, COMMIT, 10, committed_offset=5, commit_at=at(99)),
            row(1, COMMIT, 9, committed_offset=6),  # the broker's clock was set back
            row(2, COMMIT, 20, committed_offset=7, commit_at=at(1)),
        ]
    )
    assert state_at(10, events)[KEY] == (COMMITTED, 6)


def test_records_without_a_timestamp_take_the_commits_or_that_of_the_record_before(
    frame: Frame,
) -> None:
    events = frame(
        [
            row(0, COMMIT, None, committed_offset=5, commit_at=at(10)),
            row(1, COMMIT, None, committed_offset=1, partition=1, commit_at=at(30)),
            row(2, COMMIT_TOMBSTONE, None),
        ]
    )
    assert state_at(20, events)[KEY] == (COMMITTED, 5)
    assert state_at(30, events)[KEY] == (DELETED, None)


def test_groups_are_chosen_by_name_or_by_pattern(frame: Frame) -> None:
    names = ["billing", "team.a", "team.b", "teams"]
    events = frame(
        [row(n, COMMIT, 1, committed_offset=1, group_id=name) for n, name in enumerate(names)]
    )
    assert {key.group for key in state_at(5, events, "billing", "team.*")} == {
        "billing",
        "team.a",
        "team.b",
    }


def test_what_came_later_is_certain_only_when_the_log_is_whole(frame: Frame) -> None:
    logs = {
        "from its start": [row(0, COMMIT, 9)],
        "its start was cleaned": [row(1, COMMIT, 9)],
        "with a gap": [row(0, GROUP, 1), row(2, COMMIT, 9)],
        "damaged": [row(0, COMMIT, 9), row(1, DAMAGED, None)],
    }
    events = frame(
        [
            each
            | {"log_partition": number}
            | ({"group_id": name} if each["kind"] == COMMIT else {})
            for number, (name, rows) in enumerate(logs.items())
            for each in rows
        ]
    )
    found = collected(as_of(events, at(5)))
    assert {key.group: (each.log_whole, each.log_damaged) for key, each in found.items()} == {
        "from its start": (True, False),
        "its start was cleaned": (False, False),
        "with a gap": (False, False),
        "damaged": (False, True),
    }
    assert {each.state for each in found.values()} == {LATER}


# --------------------------------------------------------------------------- the plan


def then(offset: int | None = None, state: str = "", whole: bool = False) -> Then:
    position = None if offset is None else Position(offset)
    return Then(state or (DELETED if position is None else COMMITTED), position, whole, False)


def test_the_plan_commits_what_was_and_deletes_what_was_not() -> None:
    keys = [KEY._replace(partition=number) for number in range(4)]
    was = {
        keys[0]: then(40),
        keys[1]: then(None, DELETED),
        keys[2]: then(None, LATER, whole=True),
        keys[3]: then(7),
    }
    now = {key: Position(90) for key in keys[:3]} | {keys[3]: Position(7)}
    made = plan_restore(was, now, BOUNDS)
    assert [(s.key.partition, s.after and s.after[0], s.reread) for s in made.steps] == [
        (0, 40, 50),
        (1, None, None),
        (2, None, None),
    ]
    assert (made.same, made.left) == (1, ())


def test_what_the_history_does_not_know_stays_unless_told_otherwise() -> None:
    unknown, unseen = KEY._replace(partition=1), KEY._replace(partition=2)
    was = {KEY: then(40), unknown: then(None, LATER)}
    now = {KEY: Position(40), unknown: Position(9), unseen: Position(8)}
    made = plan_restore(was, now, BOUNDS)
    assert made.steps == ()
    assert [sentence.partition(": ")[0] for sentence in made.left] == [
        "billing, orders:1",
        "billing, orders:2",
    ]
    deleted = plan_restore(was, now, BOUNDS, delete_unknown=True)
    assert [(s.key, s.after) for s in deleted.steps] == [(unknown, None), (unseen, None)]


def test_what_lies_outside_its_log_is_noted_or_moved_inside() -> None:
    bounds = {KEY.log: Bounds(50, 100)}
    [noted] = plan_restore({KEY: then(40)}, {KEY: Position(90)}, bounds).steps
    assert (noted.after, noted.reread) == (Position(40), 40)
    assert noted.note == "outside orders:0, which has offsets 50 to 100"
    [moved] = plan_restore({KEY: then(40)}, {KEY: Position(90)}, bounds, clamp=True).steps
    assert (moved.after, moved.note) == (Position(50), "40 then, moved to the log's nearer end")


def test_a_partition_that_is_gone_is_told_and_left() -> None:
    made = plan_restore({KEY: then(40)}, {}, {})
    assert made.steps == ()
    assert made.left == ("billing, orders:0: left out at 40, the cluster has no such partition",)


def test_a_time_before_everything_is_refused() -> None:
    with pytest.raises(PipelineError, match="the history has no offset of these groups"):
        plan_restore({KEY: then(None, LATER, whole=True)}, {KEY: Position(1)}, BOUNDS)


def test_a_pattern_means_its_characters_literally() -> None:
    for name in ["a.b", "a+b", "a b", "ä", "[a]", "a\\b", "a-b", "\\E", "a{2}"]:
        assert re.fullmatch(regex(f"{name}*"), f"{name}, and more")
        assert not re.fullmatch(regex(f"{name}*"), f"x{name}")
        assert regex(name) == re.sub(r"([^\w\s])", r"\\\1", name)


def test_java_reads_patterns_as_python_does(frame: Frame) -> None:
    names = ["a.b", "a+b", "a b", "ä!", "[a]", "a\\b", "\\E."]
    events = frame(
        [row(n, COMMIT, 1, committed_offset=1, group_id=name) for n, name in enumerate(names)]
    )
    assert len(state_at(5, events, *(f"{name}*" for name in names))) == len(names)
    assert not state_at(5, events, "x*")
