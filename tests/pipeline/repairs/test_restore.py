"""Tests of `restore`: the committed offsets at a time in the history, and the plan that restores
these offsets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.engines.duck import DuckEngine
from pipeline.engines.engine import Rows
from pipeline.errors import PipelineError
from pipeline.model.events import ABORTED, COMMIT, EVENTS, GROUP
from pipeline.model.events import COMMITTED as MARKED
from pipeline.names import regex
from pipeline.repairs.plan import Bounds, Key, Position
from pipeline.repairs.restore import COMMITTED, DELETED, LATER, Then, as_of, plan_restore
from tests.pipeline.conftest import at
from tests.pipeline.history import History
from tests.pipeline.relations import rows_of

pytestmark = pytest.mark.proves("pipeline 12")

KEY = Key("billing", "orders", 0)
BOUNDS = {("orders", number): Bounds(0, 100) for number in range(4)}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[DuckEngine]:
    made = DuckEngine(str(tmp_path))
    yield made
    made.close()


class EventSource:
    """A source with only the method that a restore calls."""

    def __init__(self, events: History) -> None:
        self._events = events

    def event_parts(self, partitions: object) -> list[Rows]:
        return [rows_of(EVENTS, self._events.rows)]


def state_at(
    engine: DuckEngine, seconds: float, events: History, *groups: str
) -> dict[Key, tuple[str, Any]]:
    found = as_of(engine, EventSource(events), at(seconds), groups or None)
    return {key: (then.state, then.position and then.position[0]) for key, then in found.items()}


def test_restored_offset_is_the_last_commit_at_or_before_the_time(engine: DuckEngine) -> None:
    events = (
        History()
        .generation(0, KEY.group, 1)
        .commit(10, KEY.group, 5, leader_epoch=2, metadata="m")
        .commit(20, KEY.group, 3)
        .forget(30, KEY.group)
        .commit(40, KEY.group, 9)
    )
    told = [state_at(engine, seconds, events)[KEY] for seconds in (9.999, 25, 30)]
    assert told == [(LATER, None), (COMMITTED, 3), (DELETED, None)]
    [then] = as_of(engine, EventSource(events), at(10)).values()
    assert then == Then(COMMITTED, Position(5, "m", 2), True, False)


def test_restore_uses_a_transactional_commit_only_after_its_marker(
    engine: DuckEngine,
) -> None:
    """The producer wrote five offsets in five transactions: 10 (committed), 150 (aborted), 20
    (committed), 5 (aborted), and 7 (still open)."""
    events = (
        History()
        .commit(10, KEY.group, 10, producer_id=1)
        .marker(12, 1, MARKED)
        .commit(20, KEY.group, 150, producer_id=1)
        .marker(22, 1, ABORTED)
        .commit(30, KEY.group, 20, producer_id=1)
        .marker(35, 1, MARKED)
        .commit(40, KEY.group, 5, producer_id=1)
        .marker(42, 1, ABORTED)
        .commit(50, KEY.group, 7, producer_id=1)
    )
    told = [state_at(engine, seconds, events)[KEY] for seconds in (11, 12, 25, 34, 35, 41, 60)]
    assert told == [
        (LATER, None), (COMMITTED, 10), (COMMITTED, 10), (COMMITTED, 10), (COMMITTED, 20),
        (COMMITTED, 20), (COMMITTED, 20),
    ]  # fmt: skip
    made = plan_restore(as_of(engine, EventSource(events), at(25)), {KEY: Position(20)}, BOUNDS)
    assert [(step.before, step.after) for step in made.steps] == [(Position(20), Position(10))]


def test_restore_prefers_a_later_non_transactional_commit_to_an_earlier_transactional_commit(
    engine: DuckEngine,
) -> None:
    events = (
        History()
        .commit(10, KEY.group, 60, producer_id=1)
        .commit(20, KEY.group, 50)
        .marker(30, 1, MARKED)
    )
    assert state_at(engine, 40, events)[KEY] == (COMMITTED, 50)


def test_restore_ignores_client_time_and_uses_broker_time_and_log_order(engine: DuckEngine) -> None:
    events = (
        History()
        .commit(10, KEY.group, 5, commit_at=at(99))
        .commit(9, KEY.group, 6)  # the broker's clock was set back
        .commit(20, KEY.group, 7, commit_at=at(1))
    )
    assert state_at(engine, 10, events)[KEY] == (COMMITTED, 6)


def test_restore_uses_the_commit_time_of_a_record_without_timestamp(
    engine: DuckEngine,
) -> None:
    events = (
        History()
        .commit(0, KEY.group, 5, written_at=None, commit_at=at(10))
        .commit(0, KEY.group, 1, written_at=None, partition=1, commit_at=at(30))
        .forget(0, KEY.group, written_at=None)
    )
    assert state_at(engine, 20, events)[KEY] == (COMMITTED, 5)
    assert state_at(engine, 30, events)[KEY] == (DELETED, None)


def test_restore_selects_groups_by_name_or_pattern(engine: DuckEngine) -> None:
    events = History()
    for name in ("billing", "team.a", "team.b", "teams"):
        events.commit(1, name, 1)
    assert {key.group for key in state_at(engine, 5, events, "billing", "team.*")} == {
        "billing",
        "team.a",
        "team.b",
    }


def test_restore_reports_whether_the_log_is_complete_when_an_offset_has_only_later_commits(
    engine: DuckEngine,
) -> None:
    events = History()
    for number, (name, rows) in enumerate(
        {
            "from its start": [(0, COMMIT)],
            "its start was cleaned": [(1, COMMIT)],
            "with a gap": [(0, GROUP), (2, COMMIT)],
            "damaged": [(0, COMMIT), (1, None)],
        }.items()
    ):
        for offset, kind in rows:
            place = {"log_partition": number, "log_offset": offset}
            if kind == COMMIT:
                events.commit(9, name, 1, **place)
            elif kind == GROUP:
                events.generation(9, "another", 1, **place)
            else:
                events.damaged(9)
                events.rows[-1] |= place
    found = as_of(engine, EventSource(events), at(5))
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


def test_restore_plan_commits_old_offsets_and_deletes_newer_offsets() -> None:
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


def test_restore_deletes_an_offset_whose_old_value_is_unknown_only_with_delete_unknown() -> None:
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


def test_restore_plan_reports_or_clamps_an_offset_outside_its_log() -> None:
    bounds = {KEY.log: Bounds(50, 100)}
    [noted] = plan_restore({KEY: then(40)}, {KEY: Position(90)}, bounds).steps
    assert (noted.after, noted.reread) == (Position(40), 40)
    assert noted.note == "offset 40 is outside orders:0, which has offsets 50 to 100"
    [moved] = plan_restore({KEY: then(40)}, {KEY: Position(90)}, bounds, clamp=True).steps
    assert (moved.after, moved.note) == (
        Position(50),
        "40 is outside the log: moved to the log's nearest offset",
    )


def test_restore_reports_and_omits_a_partition_that_does_not_exist() -> None:
    made = plan_restore({KEY: then(40)}, {}, {})
    assert made.steps == ()
    assert made.left == (
        "billing, orders:0: offset 40 is left out, because the partition does not exist in the"
        " cluster",
    )


def test_restore_rejects_a_time_before_the_first_commit() -> None:
    with pytest.raises(PipelineError, match="the history has no offset of these groups"):
        plan_restore({KEY: then(None, LATER, whole=True)}, {KEY: Position(1)}, BOUNDS)


def test_special_characters_of_a_group_pattern_are_matched_literally() -> None:
    for name in ["a.b", "a+b", "a b", "ä", "[a]", "a\\b", "a-b", "\\E", "a{2}"]:
        assert re.fullmatch(regex(f"{name}*"), f"{name}, and more")
        assert not re.fullmatch(regex(f"{name}*"), f"x{name}")
        assert regex(name) == re.sub(r"([^\w\s])", r"\\\1", name)
