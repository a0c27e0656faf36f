"""Tests of the states of groups of every type, derived from complete and from compacted logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.model.events import TOMBSTONE
from tests.pipeline.history import History, ModernGroup, member
from tests.pipeline.relations import Relations

pytestmark = pytest.mark.pipeline


def states(folder: Path, history: History, group: str = "a") -> list[tuple[Any, ...]]:
    """Returns one tuple for each row of a group in the table `group_states`: log_offset,
    group_type, generation, alive, known, and the partitions by member."""
    made = Relations(folder, history.rows)
    columns = ("group_id", "log_offset", "group_type", "generation", "alive", "known", "members")
    return [
        (*row[1:6], {m[0]: [p for each in m[-1] for p in each[2]] for m in row[6]})
        for row in made.rows("group_states", *columns)
        if row[0] == group
    ]


def test_record_of_a_classic_group_has_the_complete_group_state(tmp_path: Path) -> None:
    history = History().generation(0, "a", 1, member("x-1", 0, 1)).generation(5, "a", 2)
    history.delete(9, "a").generation(20, "a", 1, member("y-1", 2))

    assert states(tmp_path, history) == [
        (0, "classic", 1, True, True, {"x-1": [0, 1]}),
        (1, "classic", 2, True, True, {}),
        (2, "classic", None, False, True, {}),
        (3, "classic", 1, True, True, {"y-1": [2]}),
    ]


def test_row_of_a_group_epoch_in_group_states_has_the_members_that_joined_before_it(
    tmp_path: Path,
) -> None:
    history = History()
    group = ModernGroup(history, "a")
    group.member(0, "x-1")
    group.epoch(0, 2)
    group.target(0, "x-1", 0, 1)
    group.targeted(0, 2)
    group.current(0, "x-1", 0, 1)
    group.member(5, "y-1")
    group.epoch(5, 3)
    group.target(6, "x-1", 0)  # the target is computed one second later
    group.target(6, "y-1", 1)
    group.targeted(6, 3)
    group.gone(9, "x-1")
    group.epoch(9, 4)
    group.target(10, "y-1", 0, 1)
    group.targeted(10, 4)
    group.deleted(20, "y-1")

    assert states(tmp_path, history) == [
        (1, "consumer", 2, True, True, {"x-1": [0, 1]}),
        (6, "consumer", 3, True, True, {"x-1": [0], "y-1": [1]}),
        (13, "consumer", 4, True, True, {"y-1": [0, 1]}),
        (20, "consumer", None, False, True, {}),
    ]


def test_new_member_id_of_a_static_member_in_the_same_epoch_adds_a_group_state(
    tmp_path: Path,
) -> None:
    history = History()
    group = ModernGroup(history, "a")
    static = {"group_instance_id": "till"}
    group.member(0, "x-1", **static)
    group.epoch(0, 2)
    group.target(0, "x-1", 0)
    group.gone(9, "x-1")
    group.member(9, "x-2", **static)
    group.target(9, "x-2", 0)
    group.current(9, "x-2", 0)

    assert states(tmp_path, history) == [
        (1, "consumer", 2, True, True, {"x-1": [0]}),
        (6, "consumer", 2, True, True, {"x-2": [0]}),
    ]


def test_row_of_table_group_states_excludes_members_that_joined_later(tmp_path: Path) -> None:
    history = History()
    group = ModernGroup(history, "a")
    static = {"group_instance_id": "till"}
    group.member(0, "x-1", **static)
    group.epoch(0, 2)
    group.target(0, "x-1", 0)
    group.gone(9, "x-1")
    group.member(9, "x-2", **static)
    group.target(9, "x-2", 0)
    group.current(9, "x-2", 0)
    group.member(10, "x-2", client_host="/10.0.0.2", **static)
    group.member(20, "y-1")
    group.epoch(20, 3)
    group.target(20, "y-1", 1)

    assert states(tmp_path, history) == [
        (1, "consumer", 2, True, True, {"x-1": [0]}),
        (11, "consumer", 3, True, True, {"x-2": [0], "y-1": [1]}),
    ]


def test_group_states_are_derived_from_compacted_records(tmp_path: Path) -> None:
    history = History()
    group = ModernGroup(history, "a")
    group.member(0, "no-current")
    group.current(0, "no-member", 7)  # the metadata of this member is written again below
    group.epoch(1, 9)
    group.target(1, "no-current", 3, topic=None)
    alone = ModernGroup(history, "b")
    alone.current(2, "z-1", 5)
    gone = ModernGroup(history, "c")
    gone.gone(2, "z-1")
    ModernGroup(history, "d").epoch(3, 4)

    assert states(tmp_path / "a", history) == [
        (2, "consumer", 9, True, True, {"no-current": [3], "no-member": [7]}),
    ]
    assert states(tmp_path / "b", history, "b") == [(4, "consumer", None, True, True, {"z-1": [5]})]
    assert states(tmp_path / "c", history, "c") == [(7, "consumer", None, False, True, {})]
    assert states(tmp_path / "d", history, "d") == [(8, "consumer", 4, True, True, {})]


def test_conversion_of_a_group_to_another_type_does_not_make_the_group_dead(tmp_path: Path) -> None:
    history = History().generation(0, "a", 7, member("x-1", 0, 1)).delete(5, "a")
    group = ModernGroup(history, "a")
    group.member(5, "x-1")  # the record is in the same batch as the tombstone
    group.epoch(5, 7)
    group.target(5, "x-1", 0, 1)
    group.current(5, "x-1", 0, 1)
    group.member(5, "y-1")
    group.epoch(5, 8)
    group.target(5, "x-1", 0)
    group.target(5, "y-1", 1)
    group.deleted(9, "x-1", "y-1")
    history.generation(9, "a", 9, member("x-1", 0, 1)).delete(30, "a")
    again = ModernGroup(history, "a")
    again.member(40, "z-1")  # the group is created again ten seconds later
    again.epoch(40, 2)

    assert states(tmp_path, history) == [
        (0, "classic", 7, True, True, {"x-1": [0, 1]}),
        (3, "consumer", 7, True, True, {"x-1": [0, 1]}),
        (7, "consumer", 8, True, True, {"x-1": [0], "y-1": [1]}),
        (18, "classic", 9, True, True, {"x-1": [0, 1]}),
        (19, "classic", None, False, True, {}),
        (21, "consumer", 2, True, True, {"z-1": []}),
    ]


@pytest.mark.parametrize("kind", ["share", "streams"])
def test_share_and_streams_groups_have_states_like_consumer_groups(
    tmp_path: Path, kind: str
) -> None:
    history = History()
    group = ModernGroup(history, "a", kind)
    group.member(0, "x-1")
    group.epoch(0, 2)
    group.target(0, "x-1", 0)

    assert states(tmp_path, history) == [(1, kind, 2, True, True, {"x-1": [0]})]


def test_undecodable_record_makes_the_state_of_its_group_unknown(tmp_path: Path) -> None:
    history = History().generation(0, "a", 1, member("x-1", 0)).unknown(1, "a")
    history.generation(2, "b", 1).unknown(3, "b").generation(4, "b", 2)  # the state is known again
    history.generation(5, "c", 1).delete(6, "c").unknown(7, "c")
    group = ModernGroup(history, "d")
    group.member(8, "x-1")
    history.unknown(9, "d")
    group.epoch(9, 2)

    assert states(tmp_path / "a", history) == [
        (0, "classic", 1, True, True, {"x-1": [0]}),
        (1, "classic", 1, True, False, {"x-1": [0]}),
    ]
    assert [row[4] for row in states(tmp_path / "b", history, "b")] == [True, True]
    assert [row[3:5] for row in states(tmp_path / "c", history, "c")] == [
        (True, True), (False, True), (False, False),
    ]  # fmt: skip
    assert [row[4] for row in states(tmp_path / "d", history, "d")] == [False]


def test_states_of_all_groups_of_an_offsets_partition_are_unknown_after_damage(
    tmp_path: Path,
) -> None:
    history = History().generation(0, "a", 1, member("x-1", 0)).commit(1, "simple", 5)
    group = ModernGroup(history, "b")
    group.member(2, "x-1")
    group.epoch(2, 5)
    history.damaged(3)
    group.epoch(4, 6)
    history.generation(5, "a", 3, member("x-1", 0))
    born = ModernGroup(history, "c")
    born.member(6, "x-1")
    born.epoch(6, 2)
    history.rows.append({**history.rows[-1], "log_partition": 1, "group_id": "d"})

    assert [row[4] for row in states(tmp_path / "a", history)] == [True, True]
    assert states(tmp_path / "s", history, "simple") == [(4, "classic", None, False, False, {})]
    assert [row[4] for row in states(tmp_path / "b", history, "b")] == [True, False]
    assert [row[4] for row in states(tmp_path / "c", history, "c")] == [True]
    assert [row[4] for row in states(tmp_path / "d", history, "d")] == [True]


def test_group_state_has_the_assignor_and_pattern_of_its_members(tmp_path: Path) -> None:
    history = History()
    group = ModernGroup(history, "a")
    group.member(0, "x-1", assignor="range", regex="ord.*", subscription=[])
    group.member(0, "y-1", assignor="uniform")
    group.member(0, "z-1", assignor="range")
    group.epoch(0, 2)

    made = Relations(tmp_path, history.rows)

    [(protocol, members)] = made.rows("group_states", "protocol", "members")
    assert protocol == "range"
    assert [each[4:6] for each in members] == [
        ([], "ord.*"),
        (["orders"], None),
        (["orders"], None),
    ]


def test_compaction_does_not_change_the_last_group_state(tmp_path: Path) -> None:
    history = History()
    group = ModernGroup(history, "a")
    converted = ModernGroup(history, "b")
    history.generation(0, "b", 3, member("x-1", 0)).generation(1, "b", 4, member("x-1", 0, 1))
    for number, (came, went) in enumerate([("x", ""), ("y", ""), ("z", "x"), ("x", "y")]):
        if went:
            group.gone(10 * number, went)
        group.member(10 * number, came)
        group.epoch(10 * number, 2 + number)
        for name in "xyz":
            if name in (came, "z") and name != went:
                group.target(10 * number + 1, name, number)
        group.targeted(10 * number + 1, 2 + number)
        group.current(10 * number + 2, came, number, epoch=2 + number)
    history.delete(50, "b")
    converted.member(50, "x-1")
    converted.epoch(50, 4)
    converted.target(50, "x-1", 0, 1)
    converted.member(60, "x-1", client_host="/10.0.0.2")  # only the member's host changed
    dead = ModernGroup(history, "c")
    dead.member(70, "x-1")
    dead.epoch(70, 2)
    dead.deleted(80, "x-1")

    logs = [
        {**row, "log_partition": cut}
        for cut in range(len(history.rows) + 1)
        for row in compacted(history.rows, cut)
    ]
    made = Relations(tmp_path, logs)
    columns = ("group_id", "alive", "known", "generation", "members")

    last: dict[tuple[int, str], tuple[Any, ...]] = {}
    for partition, *row in made.rows("group_states", "log_partition", *columns):
        last[partition, row[0]] = tuple(row)
    for cut in range(len(history.rows) + 1):
        for name in ("a", "b"):
            assert last[cut, name] == last[0, name], cut
        assert not last.get((cut, "c"), ("c", False))[1]
    assert [m[0] for m in last[0, "a"][-1]] == ["x", "z"]


def compacted(rows: list[dict[str, Any]], end: int) -> list[dict[str, Any]]:
    """Returns the rows that remain after a compaction of the log below offset ``end``. Tombstones
    are removed."""
    last = {key_of(row): row["log_offset"] for row in rows[:end]}
    return [
        row
        for row in rows
        if row["log_offset"] >= end
        or (last[key_of(row)] == row["log_offset"] and not row["kind"].endswith(TOMBSTONE))
    ]


def key_of(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["kind"].removesuffix(TOMBSTONE), row["group_id"], row.get("member_id")
