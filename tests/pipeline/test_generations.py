"""Generations: who was in, what changed, for how long; and who unsettles a group."""

from __future__ import annotations

import pytest

from pipeline.tables.generations import churn, generations, restless_members
from pipeline.tables.schemas import CHURN, GENERATIONS, RESTLESS_MEMBERS
from tests.pipeline.conftest import Frame
from tests.pipeline.history import History, member, shape, told

pytestmark = pytest.mark.pipeline


def test_a_group_from_its_first_member_to_its_deletion(frame: Frame) -> None:
    history = History().generation(0, "a", 0)  # Kafka 4 writes one when a group is made
    history.generation(5, "a", 1, member("web-1", 0, 1, 2))
    history.generation(15, "a", 2, member("web-1", 0, 2), member("app-2", 1))
    history.generation(65, "a", 3, member("app-2", 0, 2), member("app-3", 1), protocol="sticky")
    history.generation(66, "a", 5, member("app-2", 0, 2), member("app-3", 1), protocol="sticky")
    history.generation(70, "a", 6).delete(100, "a")
    history.generation(200, "a", 1, member("web-9", 0))

    table = generations(frame(history.rows))

    assert shape(table.schema) == shape(GENERATIONS)
    web, app, app_3 = ((name, None, name[:3], "/10.0.0.1") for name in ("web-1", "app-2", "app-3"))
    assert told(
        table, "life", "generation", "began_at", "duration_s", "change", "unseen",
        "member_count", "assigned_partitions", "joined", "left", "moved",
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
    assert told(table, "leader_changed", "protocol_changed", "hosts")[2:4] == [
        (False, False, ["/10.0.0.1"]),
        (True, True, ["/10.0.0.1"]),
    ]


def test_a_static_member_that_comes_back_is_the_same_one(frame: Frame) -> None:
    static = {"group_instance_id": "till-1"}
    history = History().generation(0, "a", 4, member("x-1", 0, **static), member("y-1", 1))
    history.generation(9, "a", 4, member("x-2", 0, **static), member("y-1", 1))
    history.generation(20, "a", 5, member("x-3", 1, **static), member("y-1", 0))

    table = generations(frame(history.rows))

    assert told(
        table, "generation", "records", "began_at", "leader", "change", "leader_changed", "moved"
    ) == [
        (4, 2, 0, "x-2", "first seen", False, []),
        (5, 1, 20, "x-3", "same members", False,
         [("orders", 0, "x-2", "y-1"), ("orders", 1, "y-1", "x-3")]),
    ]  # fmt: skip


def test_members_of_other_protocols_have_no_assignment(frame: Frame) -> None:
    connect = {"assignment": None, "subscription": None}
    history = History().generation(0, "a", 1, member("c-1", **connect), protocol_type="connect")

    table = generations(frame(history.rows))

    assert told(table, "protocol_type", "assigned_partitions", "change") == [
        ("connect", 0, "first")
    ]


def test_churn_and_who_causes_most_of_it(frame: Frame) -> None:
    steady = member("web-1", 0)
    history = History().generation(0, "a", 1, steady)
    for nth in range(1, 5):  # a member that comes and goes, each time under a new id
        history.generation(nth * 100, "a", 2 * nth, steady, member(f"bad-{nth}", 1))
        history.generation(nth * 100 + 50, "a", 2 * nth + 1, steady)
    history.generation(7200, "a", 12, steady, member("new-1", 1))  # 10 and 11 were never stable
    history.generation(0, "b", 7, member("lone-1", 0))

    found = generations(frame(history.rows)).cache()
    restless, groups = restless_members(found), churn(found)

    assert shape(groups.schema) == shape(CHURN)
    assert told(
        groups, "group_id", "generations", "rebalances", "rebalances_per_hour", "members_joined",
        "members_left", "median_generation_s", "member_count", "last_change", order_by="group_id",
    ) == [
        ("a", 10, 11, 5.5, 6, 4, 50, 2, "joined"),
        ("b", 1, 0, None, 0, 0, None, 1, "first seen"),
    ]  # fmt: skip
    assert shape(restless.schema) == shape(RESTLESS_MEMBERS)
    assert told(
        restless, "client_id", "rebalances", "share", "joins", "leaves", "member_ids",
        order_by="client_id",
    ) == [
        ("bad", 8, 0.8, 4, 4, 4), ("new", 1, 0.1, 1, 0, 1), ("web", 1, 0.1, 1, 0, 1),
    ]  # fmt: skip
    found.unpersist()
