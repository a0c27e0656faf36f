"""Tests of the tables of commits: previous offsets, rates per minute, and transactional commits,
which take effect at their end marker."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.model.events import ABORTED, COMMITTED
from tests.pipeline.history import History
from tests.pipeline.relations import Relations, stretch

pytestmark = pytest.mark.pipeline

FAR = 2**63 - 1


def test_commit_has_the_previous_offset_of_its_partition(tmp_path: Path) -> None:
    history = History().commit(0, "a", 10).commit(5, "b", 7).commit(2.5, "a", 30)
    history.commit(9, "a", 4, partition=1).commit(10, "a", 25)

    made = Relations(tmp_path, history.rows)

    assert made.rows(
        "commits", "group_id", "partition", "committed_at", "previous_offset", "since_previous_s",
        "advanced_records", "advanced_s", "day",
    ) == [
        ("a", 0, 0, None, None, None, None, "2026-01-01"),
        ("b", 0, 5, None, None, None, None, "2026-01-01"),
        ("a", 0, 2.5, 10, 2.5, 20, None, "2026-01-01"),
        ("a", 1, 9, None, None, None, None, "2026-01-01"),
        ("a", 0, 10, 30, 7.5, -5, None, "2026-01-01"),
    ]  # fmt: skip


def test_commit_after_a_tombstone_has_no_previous_offset(tmp_path: Path) -> None:
    history = History().commit(0, "a", 10).forget(5, "a").commit(8, "a", 2)

    made = Relations(tmp_path, history.rows)

    assert made.rows("commits", "committed_offset", "previous_offset", "previous_at") == [
        (10, None, None),
        (2, None, None),
    ]


def test_transactional_commits_take_effect_at_the_commit_marker(tmp_path: Path) -> None:
    history = History().commit(0, "a", 10).commit(1, "a", 150, producer_id=1)
    history.marker(2, 1, ABORTED).commit(3, "a", 20, producer_id=1).commit(4, "a", 15)
    history.marker(5, 1, COMMITTED).commit(6, "a", 30, producer_id=1).marker(7, 1, COMMITTED)
    history.commit(8, "a", 40, producer_id=1)

    made = Relations(tmp_path, history.rows)

    assert made.rows(
        "commits", "committed_at", "committed_offset", "previous_offset", "marker_offset"
    ) == [
        (0, 10, None, None),
        (4, 15, 10, None),
        (7, 30, 15, 7),
    ]
    assert made.rows("transactional_commits", "committed_offset", "outcome", "ended_at") == [
        (150, "aborted", 2),
        (20, "superseded", 5),
        (30, "committed", 7),
        (40, "open", None),
    ]


def test_commit_after_a_marker_with_a_higher_epoch_is_aborted(tmp_path: Path) -> None:
    """The log has an earlier marker of the same producer with a higher epoch, so the broker treats
    the commit as aborted."""
    history = History().commit(0, "a", 10).commit(1, "a", 20, producer_id=1, producer_epoch=3)
    history.marker(2, 1, ABORTED, epoch=4).commit(3, "a", 21, producer_id=1, producer_epoch=3)
    history.commit(4, "a", 30, producer_id=1, producer_epoch=4).marker(5, 1, COMMITTED, epoch=5)
    history.commit(6, "a", 31, producer_id=1, producer_epoch=4)

    made = Relations(tmp_path, history.rows)

    assert made.rows("commits", "committed_at", "committed_offset", "previous_offset") == [
        (0, 10, None),
        (5, 30, 10),
    ]
    assert made.rows("transactional_commits", "committed_offset", "outcome", "ended_at") == [
        (20, "aborted", 2),
        (21, "aborted", None),
        (30, "committed", 5),
        (31, "aborted", None),
    ]


def test_commit_after_a_marker_of_equal_epoch_is_in_a_new_transaction(tmp_path: Path) -> None:
    """With transaction.version 1, a late commit of an ended transaction cannot be distinguished
    from the first commit of the next transaction."""
    history = History().commit(0, "a", 20, producer_id=1, producer_epoch=3)
    history.marker(1, 1, ABORTED, epoch=3).commit(2, "a", 21, producer_id=1, producer_epoch=3)
    history.marker(3, 1, COMMITTED, epoch=3)

    made = Relations(tmp_path, history.rows)

    assert made.rows("commits", "committed_at", "committed_offset") == [(3, 21)]


def test_difference_between_consecutive_commits_is_null_when_it_overflows(tmp_path: Path) -> None:
    history = History().commit(0, "a", -FAR).commit(1, "a", FAR).commit(2, "a", 0)

    made = Relations(tmp_path, history.rows)

    assert made.rows("commits", "advanced_records") == [(None,), (None,), (-FAR,)]
    assert made.rows("rates", "advanced_records", "rewound_records", by="minute") == [(0, FAR)]


def test_commit_without_record_timestamp_uses_its_commit_timestamp(tmp_path: Path) -> None:
    history = History().commit(0, "a", 10, written_at=None).commit(5, "a", 11, written_at=None)

    made = Relations(tmp_path, history.rows)

    assert made.rows("commits", "committed_at", "since_previous_s") == [(0, None), (5, 5)]


def test_first_commit_after_since_is_compared_with_the_commit_before_since(
    tmp_path: Path,
) -> None:
    history = History().commit(0, "a", 10).commit(60, "a", 12).commit(61, "a", 15)

    made = Relations(tmp_path, history.rows, since=60)

    assert made.rows("commits", "committed_offset", "previous_offset") == [(12, 10), (15, 12)]
    assert made.rows("rates", "minute", "commits", "advanced_records", by="minute") == [(60, 2, 5)]


def test_column_advanced_s_is_the_time_between_the_records_at_the_previous_and_the_new_offset(
    tmp_path: Path,
) -> None:
    history = History().commit(50, "a", 2).commit(51, "a", 12)

    made = Relations(tmp_path, history.rows, [stretch(0, 0, 9), stretch(20, 10, 19)])

    assert made.rows("commits", "record_at", "advanced_s") == [(0, None), (20, 20)]


def test_table_rates_has_a_row_per_group_topic_and_minute(tmp_path: Path) -> None:
    history = History().commit(0, "a", 10).commit(30, "a", 40).commit(59.999, "a", 35)
    history.commit(59, "a", 5, partition=1).commit(60, "a", 36).commit(61, "b", 1)
    history.commit(86_400, "b", 2)

    made = Relations(tmp_path, history.rows)

    assert made.rows(
        "rates", "group_id", "minute", "partitions", "commits", "advanced_records",
        "rewound_records", "day", by="group_id, minute",
    ) == [
        ("a", 0, 2, 4, 30, 5, "2026-01-01"),
        ("a", 60, 1, 1, 1, 0, "2026-01-01"),
        ("b", 60, 1, 1, 0, 0, "2026-01-01"),
        ("b", 86_400, 1, 1, 1, 0, "2026-01-02"),
    ]  # fmt: skip


def test_history_without_commits_gives_empty_tables(tmp_path: Path) -> None:
    made = Relations(tmp_path, [])

    assert made.rows("commits", "committed_at") == made.rows("rates", "minute", by="minute") == []
