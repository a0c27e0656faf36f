"""Tests of the tables of generations and churn: members, changes, durations, and the members that
cause rebalances."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.coordinator.streams.groups import StreamsGroups
from tests.pipeline.history import History, ModernGroup, member
from tests.pipeline.relations import Relations
from tests.pipeline.small_logs import events_of, write_runs

pytestmark = pytest.mark.pipeline


def test_table_generations_has_all_generations_of_a_group_until_its_deletion(
    tmp_path: Path,
) -> None:
    history = History().generation(0, "a", 0)  # Kafka 4 writes generation 0 when it creates a group
    history.generation(5, "a", 1, member("web-1", 0, 1, 2))
    history.generation(15, "a", 2, member("web-1", 0, 2), member("app-2", 1))
    history.generation(65, "a", 3, member("app-2", 0, 2), member("app-3", 1), protocol="sticky")
    history.generation(66, "a", 5, member("app-2", 0, 2), member("app-3", 1), protocol="sticky")
    history.generation(70, "a", 6).delete(100, "a")
    history.generation(200, "a", 1, member("web-9", 0))

    made = Relations(tmp_path, history.rows)

    web, app, app_3 = ((name, None, name[:3], "/10.0.0.1") for name in ("web-1", "app-2", "app-3"))
    assert made.rows(
        "generations", "life", "generation", "began_at", "duration_s", "change", "unseen",
        "member_count", "assigned_partitions", "joined", "members_left", "moved",
    ) == [
        (0, 0, 0, 5, "first", 0, 0, 0, [], [], []),
        (0, 1, 5, 10, "joined", 0, 1, 3, [web], [], []),
        (0, 2, 15, 50, "joined", 0, 2, 3, [app], [], [("orders", 1, "web-1", "app-2")]),
        (0, 3, 65, 1, "joined and left", 0, 2, 3, [app_3], [web],
         [("orders", 0, "web-1", "app-2"), ("orders", 1, "app-2", "app-3"),
          ("orders", 2, "web-1", "app-2")]),
        (0, 5, 66, 4, "same members", 1, 2, 3, [], [], []),
        (0, 6, 70, 30, "emptied", 0, 0, 0, [], [app, app_3], []),
        (1, 1, 200, None, "first", 0, 1, 1, [("web-9", None, "web", "/10.0.0.1")], [], []),
    ]  # fmt: skip
    assert made.rows("generations", "leader_changed", "protocol_changed", "hosts")[2:4] == [
        (False, False, ["/10.0.0.1"]),
        (True, True, ["/10.0.0.1"]),
    ]


def test_table_generations_treats_a_returning_static_member_as_the_same_member(
    tmp_path: Path,
) -> None:
    static = {"group_instance_id": "till-1"}
    history = History().generation(0, "a", 4, member("x-1", 0, **static), member("y-1", 1))
    history.generation(9, "a", 4, member("x-2", 0, **static), member("y-1", 1))
    history.generation(20, "a", 5, member("x-3", 1, **static), member("y-1", 0))

    made = Relations(tmp_path, history.rows)

    assert made.rows(
        "generations", "generation", "records", "began_at", "leader", "change", "leader_changed",
        "moved",
    ) == [
        (4, 2, 0, "x-2", "first seen", False, []),
        (5, 1, 20, "x-3", "same members", False,
         [("orders", 0, "x-2", "y-1"), ("orders", 1, "y-1", "x-3")]),
    ]  # fmt: skip


def test_generations_of_a_connect_group_have_no_assigned_partitions(tmp_path: Path) -> None:
    connect = {"assignment": None, "subscription": None}
    history = History().generation(0, "a", 1, member("c-1", **connect), protocol_type="connect")

    made = Relations(tmp_path, history.rows)

    assert made.rows("generations", "group_type", "protocol_type", "assigned_partitions") == [
        ("classic", "connect", 0)
    ]


def test_epoch_of_a_kip_848_group_is_a_generation(tmp_path: Path) -> None:
    history = History()
    group = ModernGroup(history, "a")
    group.member(0, "x-1", assignor="uniform")
    group.epoch(0, 2)
    group.target(0, "x-1", 0, 1)
    group.member(10, "y-1")
    group.epoch(10, 3)
    group.target(11, "x-1", 0)
    group.target(11, "y-1", 1)
    group.gone(20, "x-1")
    group.epoch(20, 4)
    group.target(21, "y-1", 0, 1)
    group.gone(30, "y-1")
    group.epoch(30, 7)
    group.deleted(40)

    made = Relations(tmp_path, history.rows)

    x, y = (("x-1", None, "x", "/10.0.0.1"), ("y-1", None, "y", "/10.0.0.1"))
    assert made.rows(
        "generations", "generation", "duration_s", "change", "unseen", "member_count",
        "assigned_partitions", "joined", "members_left", "moved",
    ) == [
        (2, 10, "first", 0, 1, 2, [x], [], []),
        (3, 10, "joined", 0, 2, 2, [y], [], [("orders", 1, "x-1", "y-1")]),
        (4, 10, "left", 0, 1, 2, [], [x], [("orders", 0, "x-1", "y-1")]),
        (7, 10, "emptied", 2, 0, 0, [], [y], []),
    ]  # fmt: skip
    first = made.rows("generations", "group_type", "protocol", "members", "hosts", "known")[0]
    assert first == (
        "consumer", "uniform", [(*x, [("orders", [0, 1])])], ["/10.0.0.1"], True,
    )  # fmt: skip


def test_conversion_of_a_group_to_another_type_continues_its_generation_numbers(
    tmp_path: Path,
) -> None:
    history = History().generation(0, "a", 7, member("x-1", 0, 1)).delete(5, "a")
    group = ModernGroup(history, "a")
    group.member(5, "x-1")
    group.epoch(5, 7)
    group.target(5, "x-1", 0, 1)
    group.member(5, "y-1")
    group.epoch(5, 8)
    group.target(5, "x-1", 0)
    group.target(5, "y-1", 1, topic=None)  # the name of the assigned topic is unknown
    group.deleted(9, "x-1", "y-1")
    history.generation(9, "a", 9, member("x-1", 0, 1)).delete(30, "a")

    made = Relations(tmp_path, history.rows)

    assert [
        (*row[:6], [each[0] for each in row[6]], [each[0] for each in row[7]])
        for row in made.rows(
            "generations", "life", "group_type", "generation", "change", "unseen", "duration_s",
            "joined", "members_left",
        )
    ] == [
        (0, "classic", 7, "first seen", 0, 5, [], []),
        (0, "consumer", 7, "converted to consumer", 0, 0, [], []),
        (0, "consumer", 8, "joined", 0, 4, ["y-1"], []),
        (0, "classic", 9, "converted to classic", 0, 21, [], ["y-1"]),
    ]  # fmt: skip
    assert [row[0] for row in made.rows("generations", "members")][2][1][-1] == [("T1", [1])]
    assert made.rows("churn", "group_type", "lives", "rebalances", by="group_id") == [
        ("classic", 1, 3)
    ]


def test_generations_of_share_groups_have_no_moved_partitions(tmp_path: Path) -> None:
    history = History()
    group = ModernGroup(history, "a", "share")
    for number, name in enumerate(("x-1", "y-1")):
        group.member(number, name)
        group.epoch(number, 2 + number)
        for each in ("x-1", "y-1")[: number + 1]:
            group.target(number, each, 0)

    made = Relations(tmp_path, history.rows)

    assert made.rows("generations", "assigned_partitions", "moved", "change") == [
        (1, [], "first"), (2, [], "joined"),
    ]  # fmt: skip


def test_generations_of_streams_groups_have_the_active_tasks_of_the_coordinator(
    tmp_path: Path,
) -> None:
    """In place of a topic name, the tables contain the id of a subtopology."""
    groups = StreamsGroups()
    groups.stable("x", "y")
    groups.send("x", -1)
    groups.settle()
    write_runs(tmp_path, enumerate(groups.log))

    made = Relations(tmp_path / "scratch", events_of(tmp_path))

    rows = made.rows(
        "generations", "group_type", "generation", "change", "members", "assigned_partitions",
        "moved",
    )  # fmt: skip
    assert [(*row[:3], {who[0]: who[-1] for who in row[3]}, *row[4:]) for row in rows] == [
        ("streams", 2, "first", {"x": [("0", [0, 1])]}, 2, []),
        ("streams", 3, "joined", {"x": [("0", [0])], "y": [("0", [1])]}, 2, [("0", 1, "x", "y")]),
        ("streams", 4, "left", {"y": [("0", [0, 1])]}, 2, [("0", 0, "x", "y")]),
    ]


def test_generation_is_unknown_when_an_undecodable_record_precedes_it(tmp_path: Path) -> None:
    history = History().generation(0, "a", 1, member("x-1", 0)).unknown(5, "a")

    made = Relations(tmp_path, history.rows)

    assert made.rows("generations", "known", "records", "member_count") == [(False, 1, 1)]


def test_churn_names_the_clients_that_cause_most_rebalances(tmp_path: Path) -> None:
    steady = member("web-1", 0)
    history = History().generation(0, "a", 1, steady)
    for nth in range(1, 5):  # a member that joins and leaves, each time with a new member id
        history.generation(nth * 100, "a", 2 * nth, steady, member(f"bad-{nth}", 1))
        history.generation(nth * 100 + 50, "a", 2 * nth + 1, steady)
    # generations 10 and 11 were never stable
    history.generation(7000, "a", 12, steady, member("new-1", 1))
    history.generation(0, "b", 7, member("lone-1", 0))

    made = Relations(tmp_path, history.rows, as_of=7200)

    assert made.rows(
        "churn", "group_id", "generations", "rebalances", "rebalances_per_hour", "observed_s",
        "members_joined", "members_left", "median_generation_s", "member_count", "last_change",
        by="group_id",
    ) == [
        ("a", 10, 11, 5.5, 7200, 6, 4, 50, 2, "joined"),
        ("b", 1, 0, 0, 7200, 0, 0, None, 1, "first seen"),
    ]  # fmt: skip
    assert made.rows(
        "restless_members", "client_id", "rebalances", "share", "joins", "leaves", "member_ids",
        by="client_id",
    ) == [
        ("bad", 8, 0.8, 4, 4, 4), ("new", 1, 0.1, 1, 0, 1), ("web", 1, 0.1, 1, 0, 1),
    ]  # fmt: skip


def test_creation_of_a_group_does_not_count_as_a_rebalance(tmp_path: Path) -> None:
    history = History().generation(0, "a", 0).generation(1, "a", 1, member("x-1", 0))
    history.generation(0, "b", 0)

    made = Relations(tmp_path, history.rows)

    assert made.rows("churn", "group_id", "generations", "rebalances", by="group_id") == [
        ("a", 1, 0)
    ]


def test_rebalance_rate_is_null_when_a_group_was_observed_for_under_ten_minutes(
    tmp_path: Path,
) -> None:
    history = History().generation(0, "a", 1, member("x-1", 0))
    history.generation(1, "a", 2, member("x-1", 0), member("y-1", 1))
    history.generation(0, "gone", 1, member("x-1", 0)).generation(700, "gone", 2)
    history.delete(1200, "gone")

    def rates(as_of: float) -> list[tuple[object, ...]]:
        folder = tmp_path / str(as_of)
        made = Relations(folder, history.rows, as_of=as_of)
        return made.rows("churn", "observed_s", "rebalances_per_hour", by="group_id")

    assert rates(599.0)[0] == (599, None)
    assert rates(7200) == [(7200, 0.5), (1200, 3)]


def test_time_window_counts_only_generations_that_started_in_the_window(tmp_path: Path) -> None:
    history = History().generation(0, "a", 1, member("x-1", 0)).generation(100, "a", 2)
    history.generation(200, "a", 3, member("x-1", 0)).generation(300, "a", 5)

    made = Relations(tmp_path, history.rows, since=150, as_of=3750)

    assert made.rows("generations", "generation", "unseen") == [(2, 0), (3, 0), (5, 1)]
    assert made.rows("churn", "generations", "rebalances", "observed_s", by="group_id") == [
        (2, 3, 3600)
    ]
    assert made.rows("restless_members", "joins", "leaves", "share", by="group_id") == [(1, 1, 1)]
