"""Tests of repair plans: their steps, record counts, file format, and the plans of each kind of
repair."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from pipeline.errors import PipelineError
from pipeline.repairs import migrate, replicate
from pipeline.repairs.migrate import plan_migration, read_zk_export
from pipeline.repairs.plan import (
    KAFKA,
    Bounds,
    Key,
    Plan,
    Position,
    Step,
    backwards,
    from_json,
    inside,
    standing,
    step,
    to_json,
)
from pipeline.repairs.replicate import Known, Located, plan_replication, translated
from tests.brokers import CHECKOUT

KEY = Key("billing", "orders", 0)
OTHER = Key("billing", "orders", 1)
LOG = Bounds(10, 100)


def plan_of(*steps: Step) -> Plan:
    return Plan(
        "restore", KAFKA, "127.0.0.1:9092", "c1", "2026-01-01T00:00:00Z", {"at": "noon"}, steps
    )


@pytest.mark.parametrize(
    ("before", "after", "reread", "skipped", "note"),
    [
        (90, 40, 50, 0, None),
        (40, 90, 0, 50, None),
        (None, 40, None, None, None),
        (90, None, None, None, None),
        (90, 4, 80, 0, "offset 4 is outside orders:0, which has offsets 10 to 100"),
        (120, 90, 10, 0, None),
        (90, 120, 0, 10, "offset 120 is outside orders:0, which has offsets 10 to 100"),
    ],
)
def test_reread_and_skipped_record_counts_of_a_plan_step_exclude_deleted_records(
    before: int | None, after: int | None, reread: int | None, skipped: int | None, note: str | None
) -> None:
    made = step(KEY, before and Position(before), after and Position(after), LOG)
    assert (made.reread, made.skipped, made.note) == (reread, skipped, note)


def test_committed_offset_below_the_log_start_is_raised_to_it_without_a_leader_epoch() -> None:
    assert inside(Position(4, "mine", 7), LOG) == Position(10, "mine", -1)
    assert inside(Position(40, "mine", 7), LOG) == Position(40, "mine", 7)


def test_plan_is_unchanged_after_writing_and_reading_its_file() -> None:
    plan = plan_of(
        step(KEY, Position(90, "né", 3), Position(40), LOG, "why"),
        step(OTHER, None, Position(7), None),
        step(Key("audit", "orders", 2), Position(7), None, LOG),
    )
    assert from_json(to_json(plan), "plan.json") == plan


def test_example_of_the_commands_page_is_a_valid_plan() -> None:
    page = (CHECKOUT / "docs" / "use" / "pipeline-commands.md").read_text()
    [example] = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    plan = from_json(example, "the page")
    assert plan.steps == (Step(KEY, Position(90), Position(40), 50, 0, None),)


def change(value: dict[str, Any], path: str, to: Any) -> str:
    *way, last = path.split(".")
    place: Any = value
    for name in way:
        place = place[int(name)] if name.isdecimal() else place[name]
    place[last] = to
    return json.dumps(value)


@pytest.mark.parametrize(
    ("path", "to", "says"),
    [
        ("version", 2, "not a plan of version 1"),
        ("target", "mongo", "not a plan"),
        ("steps", None, "not a plan"),
        ("where", 3, "damaged"),
        ("about", [], "damaged"),
        ("steps.0.group", None, "step 1: a group and a topic"),
        ("steps.0.partition", -1, "step 1: partition is -1"),
        ("steps.0.before", 3, "step 1, before: the value must be an object"),
        ("steps.0.before.offset", "x", "step 1, before: offset is 'x'"),
        ("steps.0.after.metadata", 3, "step 1, after"),
        ("steps.1.partition", 0, "is listed twice"),
    ],
)
def test_error_names_the_invalid_field_of_a_plan(path: str, to: Any, says: str) -> None:
    plan = plan_of(step(KEY, Position(90), Position(40), LOG), step(OTHER, None, Position(7), LOG))
    with pytest.raises(PipelineError, match=says):
        from_json(change(json.loads(to_json(plan)), path, to), "plan.json")


@pytest.mark.parametrize("text", ["", "[]", "3", "{", "null"])
def test_file_that_is_not_json_is_rejected_as_a_plan(text: str) -> None:
    with pytest.raises(PipelineError, match=r"plan\.json is"):
        from_json(text, "plan.json")


def test_undo_plan_restores_changed_offsets_and_deletes_added_offsets() -> None:
    plan = plan_of(step(KEY, Position(90), Position(40), LOG), step(OTHER, None, Position(7), LOG))
    assert [(s.key, s.before, s.after) for s in backwards(plan).steps] == [
        (OTHER, Position(7), None),
        (KEY, Position(40), Position(90)),
    ]


def test_plan_step_is_pending_done_or_changed_according_to_current_offsets() -> None:
    ahead = step(KEY, Position(90), Position(40), LOG)
    done = step(OTHER, None, Position(7), LOG)
    changed = step(Key("audit", "orders", 0), Position(5), None, LOG)
    # consumers ignore the leader epoch in this case
    now = {KEY: Position(90, "", 12), OTHER: Position(7, "", 3), changed.key: Position(6)}
    assert standing([ahead, done, changed], now) == ([ahead], [done], [(changed, Position(6))])


# ------------------------------------------------------------------------------- migrate


@pytest.mark.parametrize(
    ("old", "new", "outcome", "moved"),
    [
        (50, None, migrate.MISSING, True),
        (50, 40, migrate.BEHIND, True),
        (50, 50, migrate.EQUAL, False),
        (50, 60, migrate.NEWER, False),
    ],
)
def test_migration_keeps_the_greater_of_two_offsets(
    old: int, new: int | None, outcome: str, moved: bool
) -> None:
    target = {} if new is None else {KEY: Position(new, "kept")}
    made = plan_migration({KEY: Position(old)}, target, {KEY.log: LOG})
    assert [finding.outcome for finding in made.findings] == [outcome]
    assert [(s.before, s.after) for s in made.steps] == (
        [(target.get(KEY), Position(old))] if moved else []
    )


def test_migration_lowers_offsets_only_when_option_backwards_is_set() -> None:
    sides = {KEY: Position(50)}, {KEY: Position(60)}, {KEY.log: LOG}
    assert plan_migration(*sides).steps == ()
    [back] = plan_migration(*sides, backwards=True).steps
    assert (back.after, back.reread, back.note) == (Position(50), 10, "goes backwards")


def test_migration_plan_omits_partitions_that_do_not_exist() -> None:
    made = plan_migration({KEY: Position(50)}, {}, {})
    assert made.counts()[migrate.ABSENT] == 1
    assert made.steps == ()


def test_second_migration_plan_is_empty_after_the_first_was_executed() -> None:
    source = {KEY: Position(50), OTHER: Position(9)}
    bounds = {KEY.log: LOG, OTHER.log: LOG}
    first = plan_migration(source, {OTHER: Position(3)}, bounds)
    moved = {each.key: each.after for each in first.steps if each.after is not None}
    assert plan_migration(source, moved, bounds).steps == ()


def test_zookeeper_export_is_parsed() -> None:
    text = "/consumers/billing/offsets/orders/0:42\n\n/consumers/a:b/offsets/o.x_y-z/11:0\n"
    assert read_zk_export(text, "file") == {
        KEY: Position(42),
        Key("a:b", "o.x_y-z", 11): Position(0),
    }


@pytest.mark.parametrize(
    "line",
    [
        "/consumers/billing/offsets/orders/0",
        "/consumers/billing/offsets/orders/0:-1",
        "/consumers/billing/offsets/orders/x:1",
        "/consumers/billing/owners/orders/0:1",
        "/consumers/billing/offsets/orders/0:7\n/consumers/billing/offsets/orders/0:8",
    ],
)
def test_error_names_the_invalid_line_of_a_zookeeper_export(line: str) -> None:
    with pytest.raises(PipelineError, match=r"file, line \d"):
        read_zk_export(line, "file")


# ----------------------------------------------------------------------------- replicate

SOURCE, TARGET = Bounds(10, 100), Bounds(0, 50)
AT = Located(40, 1_000)


@pytest.mark.parametrize(
    ("offset", "facts", "expected"),
    [
        pytest.param(40, Known(SOURCE, TARGET, AT, None, 17), (17, None), id="by its timestamp"),
        pytest.param(
            40, Known(SOURCE, TARGET, AT, AT, 39, 39), (40, None), id="the logs run in step"
        ),
        pytest.param(
            40, Known(SOURCE, TARGET, AT, Located(40, 2_000), 17), (17, None), id="only by chance"
        ),
        pytest.param(
            40, Known(SOURCE, TARGET, AT, AT, 39, 38), (39, None), id="in step by one millisecond"
        ),
        pytest.param(
            100,
            Known(SOURCE, TARGET, None, None, None),
            (50, "moved to the target's log end offset"),
            id="the end",
        ),
        pytest.param(
            40,
            Known(SOURCE, TARGET, AT, None, None),
            (
                50,
                "moved to the target's log end offset: the target has no record with timestamp"
                " 1000 ms or later yet",
            ),
            id="not copied yet",
        ),
        pytest.param(
            40,
            Known(SOURCE, TARGET, Located(40, -1), None, None),
            (None, "the record at offset 40 has no timestamp to search for"),
            id="no timestamp",
        ),
        pytest.param(
            4,
            Known(SOURCE, TARGET, Located(10, 500), None, 2),
            (2, "this offset is below the source's log start offset 10"),
            id="its record is gone",
        ),
    ],
)
def test_replicated_offset_is_translated_to_the_log_of_the_target_cluster(
    offset: int, facts: Known, expected: tuple[int | None, str | None]
) -> None:
    assert translated(offset, facts) == expected


def test_offset_replication_commits_only_differences_and_lists_omitted_offsets() -> None:
    gone = Key("billing", "gone", 0)
    committed = {KEY: Position(40, "mine", 9), OTHER: Position(41), gone: Position(1)}
    known = {
        (KEY.log, 40): Known(SOURCE, TARGET, AT, None, 17),
        (OTHER.log, 41): Known(SOURCE, TARGET, Located(41, 1_001), None, 18),
        (gone.log, 1): Known(SOURCE, None, Located(1, 5), None, None),
    }
    made = plan_replication(committed, {KEY: Position(20), OTHER: Position(18)}, known)
    [moved] = made.steps
    assert moved == Step(KEY, Position(20), Position(17, "mine"), 3, 0, "40 at the source")
    assert made.same == 1
    assert made.left == (
        "billing, gone:0: left out, because the partition does not exist in the target cluster",
    )
    assert replicate.plan_replication({}, {}, {}).steps == ()
