"""Lag at each minute's end, in records and seconds, and where it is heading."""

from __future__ import annotations

import pytest

from pipeline.contract import BATCHES
from pipeline.tables.lag import catch_up, lag
from pipeline.tables.schemas import CATCH_UP, LAG
from tests.pipeline.conftest import Frame, at
from tests.pipeline.history import History, batch, shape, told

pytestmark = pytest.mark.pipeline

NOW = at(100_000)


def test_minutes_without_commits_carry_the_offset_forward_to_the_historys_end(
    frame: Frame,
) -> None:
    batches = [batch(0, 0, 9), batch(70, 10, 19, max_s=80), batch(130, 20, 29), batch(200, 30, 39)]
    history = History().commit(20, "a", 10).commit(150, "a", 12).commit(170, "a", 15)

    table = lag(frame(history.rows), frame(batches, BATCHES), NOW)

    assert shape(table.schema) == shape(LAG)
    assert told(
        table, "minute", "as_of", "committed_offset", "end_offset", "lag_records", "unread_at",
        "lag_s", order_by="minute",
    ) == [
        (0, 60, 10, 10, 0, None, 0),
        (60, 120, 10, 20, 10, 70, 50),
        (120, 180, 15, 30, 15, 70, 110),
        (180, 200, 15, 40, 25, 70, 130),  # the history ends at 200
    ]  # fmt: skip


def test_a_tombstone_ends_a_groups_lag_and_groups_are_apart(frame: Frame) -> None:
    batches = [batch(0, 0, 99), batch(200, 100, 199)]
    history = History().commit(10, "a", 50).commit(15, "b", 70).forget(130, "a")
    history.commit(5, "a", 3, partition=1).commit(5, "a", 3, topic="gone")

    table = lag(frame(history.rows), frame(batches, BATCHES), NOW)

    known = table.where("lag_records is not null")
    assert sorted(told(known, "group_id", "minute", "lag_records", order_by="minute")) == [
        ("a", 0, 50), ("a", 60, 50), ("b", 0, 30), ("b", 60, 30), ("b", 120, 30), ("b", 180, 130),
    ]  # fmt: skip
    assert table.where("lag_records is null and lag_s is null").count() == 8


def test_a_long_silence_is_filled_for_a_bounded_time(frame: Frame) -> None:
    history = History().commit(10, "a", 50).commit(70, "a", 60).commit(60_000, "b", 7)

    table = lag(frame(history.rows), None, NOW, minutes=3)

    assert told(table.where("group_id = 'a'"), "minute", "committed_offset", "lag_s",
                order_by="minute") == [
        (59_880, 60, None), (59_940, 60, None), (60_000, 60, None),
    ]  # fmt: skip


def test_nothing_after_now_counts(frame: Frame) -> None:
    batches = [batch(0, 0, 9), batch(9e9, 10, 10)]
    history = History().commit(10, "a", 4).commit(400, "a", 9)

    table = lag(frame(history.rows), frame(batches, BATCHES), at(70))

    assert told(table, "as_of", "committed_offset", "lag_s", order_by="minute") == [
        (60, 4, 60),
        (70, 4, 70),
    ]


def test_who_catches_up_and_who_never_will(frame: Frame) -> None:
    """Each group in a partition of its own, to which 10 records a second are written."""
    groups = {"done": 10, "gains": 15, "level": 10, "loses": 4, "stopped": 0}
    history, batches = History(), []
    for partition, (group, pace) in enumerate(groups.items()):
        behind = 0 if group == "done" else 2000
        for minute in range(6):
            end = 5000 + 600 * minute
            batches.append(batch(60 * minute + 59, end - 600, end - 1, partition=partition))
            if pace or not minute:
                history.commit(60 * minute + 59.5, group, 5000 - behind + 60 * pace * minute,
                               partition=partition)  # fmt: skip
    history.commit(359.5, "new", 5, partition=0)

    table = catch_up(lag(frame(history.rows), frame(batches, BATCHES), at(360)), minutes=4)

    assert shape(table.schema) == shape(CATCH_UP)
    assert told(
        table, "group_id", "verdict", "never", "catch_up_s", "lag_records", "grown_records",
        "observed_s", order_by="group_id",
    ) == [
        ("done", "caught up", False, 0, 0, 0, 239.5),
        ("gains", "catching up", False, pytest.approx(500 / 5, rel=0.01), 500, -1200, 239.5),
        ("level", "level", False, None, 2000, 0, 239.5),
        ("loses", "falling behind", True, None, 3800, 1440, 239.5),
        ("new", "not known", False, None, 7995, 0, 0),
        ("stopped", "stopped", True, None, 5000, 2400, 239.5),
    ]  # fmt: skip
