"""Tests of the tables of assignments and moves: members with their epochs, states and partitions,
and partitions that moved."""

from __future__ import annotations

import base64
import tarfile
from pathlib import Path
from typing import Any

import pytest

from offsets.consumer_records import (
    ConsumerGroupRun,
    ConsumerRecord,
    CurrentAssignment,
    CurrentRecord,
    EpochRecord,
    GroupEpoch,
    MemberMetadata,
    MemberRecord,
    TargetEpoch,
    TargetEpochRecord,
    TargetRecord,
)
from tests.coordinator.share.groups import ShareGroups, T
from tests.coordinator.streams.groups import StreamsGroups
from tests.pipeline.history import History, ModernGroup, member
from tests.pipeline.relations import Relations
from tests.pipeline.small_logs import KAFKA_DIRS, NOON, events_of, write_runs
from tests.pipeline.sql.test_group_states import compacted

pytestmark = pytest.mark.pipeline

NOON_S = 12 * 3600
ORDERS, GONE = bytes(range(16)), b"\xff" * 16
STATE = ("generation", "member_id", "began_at", "ended_at", "member_epoch", "state", "assigned",
         "revoking")  # fmt: skip
MOVE = ("generation", "topic", "partition", "from_member", "to_member", "revoking_at",
        "released_at", "acquired_at")  # fmt: skip


def states(made: Relations) -> list[tuple[Any, ...]]:
    """Returns the rows of the table of assignments, sorted by epoch, then member, then time."""
    return made.rows("assignments", *STATE, by="life, generation, member_id, began_at, log_offset")


def from_noon(found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Returns the rows with times in seconds after noon."""
    return [
        (row[0], row[1], row[2] - NOON_S, None if row[3] is None else row[3] - NOON_S, *row[4:])
        for row in found
    ]


def moves(made: Relations) -> list[tuple[Any, ...]]:
    return made.rows("moves", *MOVE, by="log_offset, topic, partition")


def joined(name: str, epoch: int, *targets: tuple[str, dict[bytes, tuple[int, ...]]],
           current: CurrentAssignment) -> list[ConsumerRecord]:  # fmt: skip
    """Returns the records that a broker writes when a member joins, in the order in which the
    broker writes them."""
    metadata = MemberMetadata(client_id=f"app-{name}", client_host="/10.0.0.1")
    return [
        MemberRecord(name, metadata),
        EpochRecord(GroupEpoch(epoch, 7)),
        *(TargetRecord(who, target) for who, target in targets),
        TargetEpochRecord(TargetEpoch(epoch, NOON)),
        CurrentRecord(name, current),
    ]


def left(name: str, epoch: int) -> list[ConsumerRecord]:
    return [
        CurrentRecord(name, None), TargetRecord(name, None), MemberRecord(name, None),
        EpochRecord(GroupEpoch(epoch, 7)),
    ]  # fmt: skip


def test_member_states_and_moves_are_derived_from_records_of_muster(tmp_path: Path) -> None:
    """The data folder has two topic ids. The name of one topic is known, and the other topic was
    deleted."""
    at_2, both = {0: 2, 1: 2}, {ORDERS: (0, 1), GONE: (5,)}
    batches: list[tuple[int, list[ConsumerRecord]]] = [
        (0, joined("x", 2, ("x", both), current=CurrentAssignment(
            2, 0, 0, {ORDERS: at_2, GONE: {5: 2}}))),
        (10, joined("y", 3, ("x", {ORDERS: (0,)}), ("y", {ORDERS: (1,), GONE: (5,)}),
                    current=CurrentAssignment(3, 0, 2))),
        (12, [CurrentRecord("x", CurrentAssignment(
            2, 2, 1, {ORDERS: {0: 2}}, {ORDERS: {1: 2}, GONE: {5: 2}}))]),
        (15, [CurrentRecord("x", CurrentAssignment(3, 2, 0, {ORDERS: {0: 2}}))]),
        (17, [CurrentRecord("y", CurrentAssignment(3, 3, 0, {ORDERS: {1: 3}, GONE: {5: 3}}))]),
        (20, left("x", 4)),
        (26, [TargetRecord("y", both), TargetEpochRecord(TargetEpoch(4, NOON)),
              CurrentRecord("y", CurrentAssignment(
                  4, 3, 0, {ORDERS: {0: 4, 1: 3}, GONE: {5: 3}}))]),
    ]  # fmt: skip
    runs = [(seconds, ConsumerGroupRun("g", records)) for seconds, records in batches]
    write_runs(tmp_path, runs, [("orders", ORDERS)])

    made = Relations(tmp_path / "scratch", events_of(tmp_path))

    gone = base64.urlsafe_b64encode(GONE).decode().rstrip("=")
    assert from_noon(states(made)) == [
        (2, "x", 0, 10, 2, "STABLE", [(gone, [5]), ("orders", [0, 1])], []),
        (3, "x", 10, 12, 2, "STABLE", [(gone, [5]), ("orders", [0, 1])], []),
        (3, "x", 12, 15, 2, "UNREVOKED", [("orders", [0])], [(gone, [5]), ("orders", [1])]),
        (3, "x", 15, 20, 3, "STABLE", [("orders", [0])], []),
        (3, "y", 10, 17, 3, "UNRELEASED", [], []),
        (3, "y", 17, 20, 3, "STABLE", [(gone, [5]), ("orders", [1])], []),
        (4, "y", 20, 26, 3, "STABLE", [(gone, [5]), ("orders", [1])], []),
        (4, "y", 26, None, 4, "STABLE", [(gone, [5]), ("orders", [0, 1])], []),
    ]  # fmt: skip
    assert made.rows(
        "moves", "generation", "topic", "partition", "from_member", "from_client_id", "to_member",
        "to_client_id", "to_client_host", "revoking_s", "unowned_s", "log_offset",
        by="log_offset, topic",
    ) == [
        (3, gone, 5, "x", "app-x", "y", "app-y", "/10.0.0.1", 3, 2, 13),
        (3, "orders", 1, "x", "app-x", "y", "app-y", "/10.0.0.1", 3, 2, 13),
        (4, "orders", 0, "x", "app-x", "y", "app-y", "/10.0.0.1", None, 6, 20),
    ]  # fmt: skip
    assert made.rows("assignments", "known", "life", "client_id", "previous_member_epoch")[0] == (
        True, 0, "app-x", 0,
    )  # fmt: skip


def test_tables_of_assignments_and_moves_equal_the_epochs_in_a_log_of_kafka(tmp_path: Path) -> None:
    """In group `modern` of Kafka 4.3.1, ada has all partitions, bob joins, ada leaves, and cyd
    joins."""
    with tarfile.open(KAFKA_DIRS.parent / "kafka-groups" / "data.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    of_group = [row for row in events_of(tmp_path) if row["group_id"] == "modern"]
    made = Relations(tmp_path / "scratch", of_group)

    rows = made.rows(
        "assignments", "generation", "client_id", "member_epoch", "state", "assigned", "revoking"
    )

    def orders(*partitions: int) -> list[tuple[str, list[int]]]:
        return [("orders", list(partitions))]

    assert sorted(rows, key=lambda row: row[:2]) == [
        (2, "ada", 2, "STABLE", orders(0, 1, 2), []),
        (3, "ada", 2, "STABLE", orders(0, 1, 2), []),
        (3, "ada", 2, "UNREVOKED", orders(0, 1), orders(2)),
        (3, "ada", 3, "STABLE", orders(0, 1), []),
        (3, "bob", 3, "UNRELEASED", [], []),
        (3, "bob", 3, "STABLE", orders(2), []),
        (4, "bob", 3, "STABLE", orders(2), []),
        (4, "bob", 4, "STABLE", orders(0, 1, 2), []),
        (5, "bob", 4, "STABLE", orders(0, 1, 2), []),
        (5, "bob", 4, "UNREVOKED", orders(0, 1), orders(2)),
        (5, "bob", 5, "STABLE", orders(0, 1), []),
        (5, "cyd", 5, "UNRELEASED", [], []),
        (5, "cyd", 5, "STABLE", orders(2), []),
    ]
    assert made.rows(
        "moves", "generation", "partition", "from_client_id", "to_client_id", "revoking_s",
        "unowned_s", by="log_offset, partition",
    ) == [
        (3, 2, "ada", "bob", 0.008, 0.06), (4, 0, "ada", "bob", None, 0.078),
        (4, 1, "ada", "bob", None, 0.078), (5, 2, "bob", "cyd", 0.075, 0.013),
    ]  # fmt: skip


def test_topic_id_gets_the_topic_name_that_any_record_of_the_history_contains(
    tmp_path: Path,
) -> None:
    """Only a record of another group contains the name of the topic. This happens if the topic is
    deleted before the pipeline reads the records of this group."""
    history = History()
    group = ModernGroup(history, "a")
    ModernGroup(history, "other").target(0, "z-1", 7)
    group.member(0, "x-1")
    group.epoch(0, 2)
    group.current(0, "x-1", 0, 1, topic=None)
    group.current(5, "x-1", 0, topic=None, state=1, revoking=[1])

    assert [row[6:] for row in states(Relations(tmp_path, history.rows))] == [
        ([("orders", [0, 1])], []), ([("orders", [0])], [("orders", [1])]),
    ]  # fmt: skip


def test_state_of_a_member_without_a_current_assignment_is_null(tmp_path: Path) -> None:
    history = History()
    group = ModernGroup(history, "a")
    group.member(0, "x-1")
    group.epoch(0, 2)
    group.member(5, "y-1")
    group.epoch(5, 3)
    group.current(8, "y-1", 0, epoch=3)
    group.gone(9, "x-1", "y-1")
    group.epoch(9, 4)

    assert states(Relations(tmp_path, history.rows)) == [
        (2, "x-1", 0, 5, None, None, [], []),
        (3, "x-1", 5, 9, None, None, [], []),
        (3, "y-1", 5, 8, None, None, [], []),
        (3, "y-1", 8, 9, 3, "STABLE", [("orders", [0])], []),
    ]


def test_compacted_log_has_the_last_states_of_members(tmp_path: Path) -> None:
    """The compacted log has only one epoch record of the group. Member x-1 has records before the
    epoch record, and an assignment after it. The metadata record of y-1 is after its assignment."""
    history = History()
    group = ModernGroup(history, "a")
    group.member(0, "x-1")
    group.current(1, "x-1", 0, epoch=4)
    group.current(2, "y-1", 1, epoch=4)
    group.epoch(3, 5)
    group.current(4, "x-1", 0, epoch=5)
    group.member(6, "y-1", client_host="/10.0.0.2")

    made = Relations(tmp_path, history.rows)

    assert states(made) == [
        (5, "x-1", 3, 4, 4, "STABLE", [("orders", [0])], []),
        (5, "x-1", 4, None, 5, "STABLE", [("orders", [0])], []),
        (5, "y-1", 3, None, 4, "STABLE", [("orders", [1])], []),
    ]
    assert [row[0] for row in made.rows("assignments", "client_host", by="member_id DESC")] == [
        "/10.0.0.2", "/10.0.0.1", "/10.0.0.1",
    ]  # fmt: skip


def test_compaction_does_not_change_the_current_member_states(tmp_path: Path) -> None:
    history = History()
    group = ModernGroup(history, "a")
    group.member(0, "x-1")
    group.epoch(0, 2)
    group.current(0, "x-1", 0, 1)
    group.member(10, "y-1")
    group.epoch(10, 3)
    group.current(10, "y-1", epoch=3, state=2)
    group.current(12, "x-1", 0, epoch=2, state=1, revoking=[1])
    group.member(15, "x-1", client_host="/10.0.0.2")
    group.member(20, "z-1")
    group.epoch(20, 4)
    group.current(20, "z-1", epoch=4, state=2)
    group.gone(30, "y-1")
    group.epoch(30, 5)
    cuts = range(len(history.rows) + 1)
    logs = [{**row, "log_partition": cut} for cut in cuts for row in compacted(history.rows, cut)]

    made = Relations(tmp_path, logs)

    found: dict[int, list[Any]] = {cut: [] for cut in cuts}
    for cut, ended_at, *row in made.rows(
        "assignments", "log_partition", "ended_at", "generation", *STATE[4:], "client_host",
        by="member_id",
    ):  # fmt: skip
        if ended_at is None:
            found[cut].append(tuple(row))
    current = [
        (5, 2, "UNREVOKED", [("orders", [0])], [("orders", [1])], "/10.0.0.2"),
        (5, 4, "UNRELEASED", [], [], "/10.0.0.1"),
    ]
    assert found == dict.fromkeys(cuts, current)


def test_returning_static_member_moves_no_partition(tmp_path: Path) -> None:
    history = History()
    group = ModernGroup(history, "a")
    static = {"group_instance_id": "till"}
    group.member(0, "x-1", **static)
    group.epoch(0, 2)
    group.current(0, "x-1", 0)
    group.current(5, "x-1", 0, epoch=-2)  # it left for a while and keeps its partitions
    group.gone(9, "x-1")
    group.member(9, "x-2", **static)
    group.current(9, "x-2", 0)
    group.gone(20, "x-2")
    group.member(20, "y-1")
    group.epoch(20, 3)
    group.current(21, "y-1", 0, epoch=3)

    made = Relations(tmp_path, history.rows)

    assert [row[:5] for row in states(made)] == [
        (2, "x-1", 0, 5, 2), (2, "x-1", 5, 9, -2), (2, "x-2", 9, 20, 2), (3, "y-1", 20, 21, None),
        (3, "y-1", 21, None, 3),
    ]  # fmt: skip
    assert moves(made) == [(3, "orders", 0, "x-2", "y-1", None, 20, 21)]


def test_partition_that_moves_away_from_a_member_and_back_counts_as_two_moves(
    tmp_path: Path,
) -> None:
    """The member is removed and joins again with the same member id (KIP-1082)."""
    history = History()
    group = ModernGroup(history, "a")
    group.member(0, "x-1")
    group.member(0, "y-1")
    group.epoch(0, 2)
    group.current(0, "x-1", 0)
    group.current(0, "y-1", 1)
    group.gone(10, "x-1")
    group.epoch(10, 3)
    group.current(11, "y-1", 0, 1, epoch=3)
    group.gone(20, "y-1")
    group.member(20, "x-1")
    group.epoch(20, 4)
    group.current(20, "x-1", 0, epoch=4)

    assert moves(Relations(tmp_path, history.rows)) == [
        (3, "orders", 0, "x-1", "y-1", None, 10, 11),
        (4, "orders", 0, "y-1", "x-1", None, 20, 20),
    ]


def test_deletion_or_conversion_of_a_group_does_not_count_as_a_move_of_partitions(
    tmp_path: Path,
) -> None:
    history = History()
    group = ModernGroup(history, "a")
    for start, name in ((0, "x-1"), (100, "y-1")):
        group.member(start, name)
        group.epoch(start, 2)
        group.current(start, name, 0)
        group.deleted(start + 50, name)
    history.generation(150, "a", 3, member("y-1", 0)).delete(200, "a")
    group.member(200, "z-1")  # the classic group becomes a consumer group
    group.epoch(200, 4)
    group.current(200, "z-1", 0, epoch=4)

    made = Relations(tmp_path, history.rows)

    assert made.rows("assignments", "life", "member_id", "began_at", "ended_at") == [
        (0, "x-1", 0, 50), (1, "y-1", 100, 150), (1, "z-1", 200, None),
    ]  # fmt: skip
    assert moves(made) == []


def test_first_move_in_a_time_window_names_the_owner_from_before_the_window(tmp_path: Path) -> None:
    history = History()
    group = ModernGroup(history, "a")
    group.member(0, "x-1")
    group.epoch(0, 2)
    group.current(0, "x-1", 0, 1)
    group.gone(10, "x-1")
    group.member(10, "y-1")
    group.epoch(10, 3)
    group.current(11, "y-1", 0, epoch=3)
    group.current(21, "y-1", 0, 1, epoch=3)

    made = Relations(tmp_path, history.rows, since=20)

    assert [row[:4] for row in states(made)] == [(3, "y-1", 11, 21), (3, "y-1", 21, None)]
    assert moves(made) == [(3, "orders", 1, "x-1", "y-1", None, 10, 21)]


def test_undefined_state_number_of_a_member_is_shown_as_unknown(tmp_path: Path) -> None:
    history = History()
    group = ModernGroup(history, "a")
    group.member(0, "x-1")
    history.unknown(0, "a")
    group.epoch(0, 2)
    group.current(0, "x-1", 0, state=9)

    made = Relations(tmp_path, history.rows)

    assert made.rows("assignments", "state", "known") == [("UNKNOWN", False)]


def test_members_of_classic_groups_have_no_rows_in_the_tables_assignments_and_moves(
    tmp_path: Path,
) -> None:
    made = Relations(tmp_path, History().generation(0, "a", 1, member("x-1", 0)).rows)

    assert (states(made), moves(made)) == ([], [])


def test_members_of_share_groups_have_states_and_move_no_partitions(tmp_path: Path) -> None:
    """Members x and y share the partitions of topic t. After x leaves, y has all partitions."""
    groups = ShareGroups()
    groups.stable("x", "y")
    groups.send("x", -1)
    groups.send("y", groups.group.members["y"].current.epoch)
    write_runs(tmp_path, enumerate(groups.log), [("t", T)])

    made = Relations(tmp_path / "scratch", events_of(tmp_path))

    assert from_noon(states(made)) == [
        (2, "x", 0, 2, 2, "STABLE", [], []),
        (3, "x", 2, 3, 3, "STABLE", [("t", [0, 1])], []),
        (4, "x", 3, 4, 3, "STABLE", [("t", [0, 1])], []),
        (4, "x", 4, 5, 4, "STABLE", [("t", [1])], []),
        (4, "y", 3, 5, 4, "STABLE", [("t", [0])], []),
        (5, "y", 5, 6, 4, "STABLE", [("t", [0])], []),
        (5, "y", 6, None, 5, "STABLE", [("t", [0, 1])], []),
    ]
    assert moves(made) == []


def test_assignments_and_moves_of_a_streams_group_contain_its_active_tasks(tmp_path: Path) -> None:
    """Subtopology 0 has two tasks. Member y receives one task from x, and the other task after x
    has left."""
    groups = StreamsGroups()
    groups.stable("x", "y")
    groups.send("x", -1)
    groups.settle()
    write_runs(tmp_path, enumerate(groups.log))

    made = Relations(tmp_path / "scratch", events_of(tmp_path))

    assert from_noon(states(made)) == [
        (2, "x", 0, 1, 2, "STABLE", [("0", [0, 1])], []),
        (3, "x", 1, 2, 2, "STABLE", [("0", [0, 1])], []),
        (3, "x", 2, 4, 2, "UNREVOKED", [("0", [0])], [("0", [1])]),
        (3, "x", 4, 6, 3, "STABLE", [("0", [0])], []),
        (3, "y", 1, 3, 3, "UNRELEASED", [], []),
        (3, "y", 3, 5, 3, "UNRELEASED", [], []),
        (3, "y", 5, 6, 3, "STABLE", [("0", [1])], []),
        (4, "y", 6, 7, 3, "STABLE", [("0", [1])], []),
        (4, "y", 7, None, 4, "STABLE", [("0", [0, 1])], []),
    ]
    assert made.rows(
        "moves", "generation", "topic", "partition", "from_member", "to_member", "revoking_s",
        "unowned_s",
    ) == [(3, "0", 1, "x", "y", 2, 1), (4, "0", 0, "x", "y", None, 1)]  # fmt: skip


def test_share_and_streams_groups_in_a_log_of_kafka_have_assignment_states(tmp_path: Path) -> None:
    with tarfile.open(KAFKA_DIRS.parent / "kafka-groups" / "data.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    events = [row for row in events_of(tmp_path) if row["group_id"] in ("shared", "streams")]

    made = Relations(tmp_path / "scratch", events)

    assert made.rows(
        "assignments", "group_id", "generation", "client_id", "member_epoch",
        "previous_member_epoch", "state", "assigned", by="group_id, log_offset, generation",
    ) == [
        ("shared", 2, "sharer", 2, 0, "STABLE", []),
        ("shared", 3, "sharer", 3, 2, "STABLE", [("orders", [0, 1, 2])]),
        ("streams", 2, "streamer", 2, 0, "STABLE", [("0", [0, 1, 2])]),
    ]  # fmt: skip
