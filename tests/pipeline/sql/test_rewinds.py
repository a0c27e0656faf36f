"""Tests of rewinds, which are commits below the previous offset: the distance, the members of the
group, and the owner of the partition."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.model.events import COMMITTED
from tests.pipeline.history import History, ModernGroup, member
from tests.pipeline.relations import Relations, stretch

pytestmark = pytest.mark.pipeline


def test_table_rewinds_has_the_group_members_and_the_owner_of_the_partition(tmp_path: Path) -> None:
    history = History().commit(0, "a", 10).commit(1, "a", 4)  # before the first member joined
    history.generation(2, "a", 7, member("web-1", 0), member("web-2", 1))
    history.commit(3, "a", 9).commit(4, "a", 3).commit(5, "a", 6)
    history.delete(6, "a").commit(7, "a", 5)

    made = Relations(tmp_path, history.rows)

    web_1, web_2 = (("web-1", None, "web", "/10.0.0.1"), ("web-2", None, "web", "/10.0.0.1"))
    assert made.rows(
        "rewinds", "rewound_at", "previous_offset", "committed_offset", "rewound_records",
        "generation", "owner", "members",
    ) == [
        (1, 10, 4, 6, None, None, []),
        (4, 9, 3, 6, 7, web_1, [web_1, web_2]),
        (7, 6, 5, 1, None, None, []),
    ]  # fmt: skip


def test_rewound_seconds_are_the_time_between_the_records_at_old_and_new_offset(
    tmp_path: Path,
) -> None:
    history = History().commit(50, "a", 12).commit(51, "a", 2)

    made = Relations(tmp_path, history.rows, [stretch(0, 0, 9), stretch(20, 10, 19)])

    assert made.rows("rewinds", "rewound_records", "rewound_s") == [(10, 20)]


def test_transactional_rewind_belongs_to_the_member_that_committed_it(tmp_path: Path) -> None:
    history = History().generation(0, "a", 1, member("x-1", 0)).commit(1, "a", 10)
    history.commit(2, "a", 4, producer_id=1).generation(3, "a", 2, member("y-1", 0))
    history.marker(4, 1, COMMITTED)

    made = Relations(tmp_path, history.rows)

    assert made.rows("rewinds", "rewound_at", "generation", "owner") == [
        (4, 1, ("x-1", None, "x", "/10.0.0.1"))
    ]


def test_table_rewinds_names_the_member_that_owned_the_partition_at_the_rewind(
    tmp_path: Path,
) -> None:
    history = History().commit(0, "a", 100)
    group = ModernGroup(history, "a")
    group.member(1, "x-1")
    group.epoch(1, 2)
    group.target(1, "x-1", 0, 1)
    history.commit(2, "a", 90)  # assigned in the target, but in no current assignment yet
    group.current(2, "x-1", 0, 1, epoch=2)
    group.member(3, "y-1")
    group.epoch(3, 3)
    group.target(3, "x-1", 1)
    group.target(3, "y-1", 0)
    group.current(4, "x-1", 1, epoch=2, state=1)  # the member must revoke partition 0
    history.commit(5, "a", 80)
    group.current(6, "x-1", 1, epoch=3)
    history.commit(7, "a", 70)  # no member owns the partition
    group.current(8, "y-1", 0, epoch=3)
    history.commit(9, "a", 60)
    group.gone(10, "y-1")
    group.epoch(10, 4)
    history.commit(11, "a", 50)

    made = Relations(tmp_path, history.rows)

    x, y = (("x-1", None, "x", "/10.0.0.1"), ("y-1", None, "y", "/10.0.0.1"))
    assert made.rows("rewinds", "committed_offset", "generation", "owner", "members") == [
        (90, 2, x, [x]),
        (80, 3, x, [x, y]),
        (70, 3, None, [x, y]),
        (60, 3, y, [x, y]),
        (50, 4, None, [x]),
    ]


def test_table_rewinds_names_a_returned_static_member_as_the_owner(tmp_path: Path) -> None:
    history = History()
    group = ModernGroup(history, "a")
    group.member(0, "x-1", group_instance_id="till")
    group.epoch(0, 2)
    group.target(0, "x-1", 0)
    group.current(0, "x-1", 0)
    group.gone(9, "x-1")
    group.member(9, "x-2", group_instance_id="till")
    group.current(9, "x-2", 0)
    history.commit(10, "a", 9).commit(11, "a", 4)
    group.member(12, "y-1")
    group.epoch(12, 3)

    made = Relations(tmp_path, history.rows)

    assert made.rows("rewinds", "owner") == [(("x-2", "till", "x", "/10.0.0.1"),)]


def test_members_at_a_rewind_are_unknown_after_an_undecodable_record(tmp_path: Path) -> None:
    history = History().generation(0, "a", 3, member("x-1", 0)).commit(1, "a", 9)
    history.unknown(2, "a").commit(3, "a", 4)

    made = Relations(tmp_path, history.rows)

    assert made.rows("rewinds", "members", "generation") == [(None, 3)]


def test_member_with_a_subtopology_is_not_the_owner_of_a_topic_with_the_same_name(
    tmp_path: Path,
) -> None:
    history = History()
    group = ModernGroup(history, "a", "streams")
    group.member(0, "x-1")
    group.epoch(0, 2)
    group.target(0, "x-1", 0)
    group.current(0, "x-1", 0, state=1)
    history.commit(1, "a", 9, topic="0").commit(2, "a", 4, topic="0")

    assert Relations(tmp_path, history.rows).rows("rewinds", "generation", "owner") == [(2, None)]
