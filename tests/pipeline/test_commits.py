"""Commits know the one before; rewinds know who was there; rates count by the minute."""

from __future__ import annotations

import pytest

from pipeline.contract import BATCHES
from pipeline.tables.commits import commits, rates, rewinds
from pipeline.tables.schemas import COMMITS, RATES, REWINDS
from tests.pipeline.conftest import Frame
from tests.pipeline.history import History, batch, member, shape, told

pytestmark = pytest.mark.pipeline

FAR = 2**63 - 1


def test_each_commit_knows_the_one_before_it(frame: Frame) -> None:
    history = History().commit(0, "a", 10).commit(5, "b", 7).commit(2.5, "a", 30)
    history.commit(9, "a", 4, partition=1).commit(10, "a", 25)

    table = commits(frame(history.rows))

    assert shape(table.schema) == shape(COMMITS)
    assert told(
        table, "group_id", "partition", "at", "previous_offset", "since_previous_s",
        "advanced_records", "advanced_s", "day",
    ) == [
        ("a", 0, 0, None, None, None, None, "2026-01-01"),
        ("b", 0, 5, None, None, None, None, "2026-01-01"),
        ("a", 0, 2.5, 10, 2.5, 20, None, "2026-01-01"),
        ("a", 1, 9, None, None, None, None, "2026-01-01"),
        ("a", 0, 10, 30, 7.5, -5, None, "2026-01-01"),
    ]  # fmt: skip


def test_a_tombstone_ends_the_chain(frame: Frame) -> None:
    history = History().commit(0, "a", 10).forget(5, "a").commit(8, "a", 2)

    table = commits(frame(history.rows))

    assert told(table, "committed_offset", "previous_offset", "previous_at") == [
        (10, None, None),
        (2, None, None),
    ]


def test_progress_in_the_topics_own_time_is_exact_to_the_batch(frame: Frame) -> None:
    written = [
        batch(100, 0, 9),
        batch(160, 10, 19),
        batch(300, 30, 39),
        batch(999, 0, 9, partition=1),
    ]
    history = History().commit(1000, "a", 0).commit(1001, "a", 15)
    history.commit(1002, "a", 25)  # in a hole that compaction made
    history.commit(1003, "a", 40)  # the end: no record there yet

    table = commits(frame(history.rows), frame(written, BATCHES))

    assert told(table, "committed_offset", "record_at", "advanced_s") == [
        (0, 100, None),
        (15, 160, 60),
        (25, 300, 140),
        (40, None, None),
    ]


def test_offsets_at_both_ends_of_the_numbers_have_no_distance(frame: Frame) -> None:
    history = History().commit(0, "a", -FAR).commit(1, "a", FAR).commit(2, "a", 0)

    table = commits(frame(history.rows))

    assert told(table, "advanced_records") == [(None,), (None,), (-FAR,)]
    assert told(rates(table), "advanced_records", "rewound_records", order_by="minute") == [
        (0, FAR)
    ]


def test_a_commit_without_a_time_of_its_record_has_the_values(frame: Frame) -> None:
    history = History().commit(0, "a", 10, written_at=None).commit(5, "a", 11, written_at=None)

    assert told(commits(frame(history.rows)), "at", "since_previous_s") == [(0, None), (5, 5)]


def test_rewinds_say_who_was_in_the_group_and_held_the_partition(frame: Frame) -> None:
    history = History().commit(0, "a", 10).commit(1, "a", 4)  # before anybody joined
    history.generation(2, "a", 7, member("web-1", 0), member("web-2", 1))
    history.commit(3, "a", 9).commit(4, "a", 3).commit(5, "a", 6)
    history.delete(6, "a").commit(7, "a", 5)

    events = frame(history.rows)
    table = rewinds(commits(events), events)

    assert shape(table.schema) == shape(REWINDS)
    web_1, web_2 = (("web-1", None, "web", "/10.0.0.1"), ("web-2", None, "web", "/10.0.0.1"))
    assert told(
        table, "at", "previous_offset", "committed_offset", "rewound_records", "generation",
        "owner", "members",
    ) == [
        (1, 10, 4, 6, None, None, None),
        (4, 9, 3, 6, 7, web_1, [web_1, web_2]),
        (7, 6, 5, 1, None, None, None),
    ]  # fmt: skip


def test_rewinds_say_how_far_in_the_topics_time(frame: Frame) -> None:
    events = frame(History().commit(50, "a", 12).commit(51, "a", 2).rows)
    table = commits(events, frame([batch(0, 0, 9), batch(20, 10, 19)], BATCHES))

    assert told(rewinds(table, events), "rewound_records", "rewound_s") == [(10, 20)]


def test_rates_by_group_topic_and_minute(frame: Frame) -> None:
    history = History().commit(0, "a", 10).commit(30, "a", 40).commit(59.999, "a", 35)
    history.commit(59, "a", 5, partition=1).commit(60, "a", 36).commit(61, "b", 1)
    history.commit(86_400, "b", 2)

    table = rates(commits(frame(history.rows)))

    assert shape(table.schema) == shape(RATES)
    assert sorted(
        told(
            table, "group_id", "minute", "partitions", "commits", "advanced_records",
            "rewound_records", "day", order_by="minute",
        )
    ) == [
        ("a", 0, 2, 4, 30, 5, "2026-01-01"),
        ("a", 60, 1, 1, 1, 0, "2026-01-01"),
        ("b", 60, 1, 1, 0, 0, "2026-01-01"),
        ("b", 86_400, 1, 1, 1, 0, "2026-01-02"),
    ]  # fmt: skip


def test_a_history_without_commits_gives_empty_tables(frame: Frame) -> None:
    events = frame([])
    table = commits(events, frame([], BATCHES))

    assert [t.count() for t in (table, rewinds(table, events), rates(table))] == [0, 0, 0]
