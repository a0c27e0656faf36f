"""Tests of the lag at the end of each time step, in records and in seconds, and of the forecast of
the lag. The records have timestamps of any kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.sql import lag
from tests.pipeline.history import History, ModernGroup, member
from tests.pipeline.relations import Relations, stretch

pytestmark = pytest.mark.pipeline

YEAR = 365 * 86_400
LAG = ("as_of", "lag_records", "lag_s", "lag_precision_s")


def lag_of(made: Relations, *columns: str) -> list[tuple[Any, ...]]:
    return made.rows("lag", *(columns or LAG), by="group_id, minute")


def seen(seconds: float, end: int, **columns: Any) -> dict[str, Any]:
    """Returns a row that states the log end offset ``end``, as it was read at ``seconds``."""
    return stretch(seconds, end, end - 1, **{"first_at": None, **columns})


def start(seconds: float, first: int) -> dict[str, Any]:
    """Returns a row that states the log start offset ``first``, as it was read at ``seconds``."""
    return stretch(seconds, first, first - 1, last_at=None)


def test_lag_in_a_time_step_without_commits_uses_the_last_committed_offset(tmp_path: Path) -> None:
    topic = [stretch(0, 0, 9), stretch(70, 10, 20, last_s=80), stretch(130, 21, 29),
             stretch(200, 30, 39)]  # fmt: skip
    history = History().commit(20, "a", 10).commit(150, "a", 12).commit(170, "a", 15)

    made = Relations(tmp_path, history.rows, topic, as_of=200)

    assert lag_of(made, "minute", "step_s", "committed_offset", "committed_at", "end_offset",
                  "unread_at", *LAG) == [
        (0, 60, 10, 20, 10, None, 60, 0, 0, 0),
        (60, 60, 10, 20, 21, 70, 120, 11, 50, 0),
        (120, 60, 15, 170, 30, 75, 180, 15, 105, 5),  # the step ends in the middle of a batch
        (180, 60, 15, 170, 40, 75, 200, 25, 125, 5),  # the step ends at the as-of time
    ]  # fmt: skip


def test_offset_tombstone_of_a_group_does_not_end_the_lag_of_other_groups(tmp_path: Path) -> None:
    topic = [stretch(0, 0, 99), stretch(200, 100, 199)]
    history = History().commit(10, "a", 50).commit(15, "b", 70).forget(130, "a")
    history.commit(5, "a", 3, partition=1).commit(5, "a", 3, topic="gone")

    made = Relations(tmp_path, history.rows, topic, as_of=201)

    found = lag_of(made, "group_id", "minute", "lag_records", "lag_s")
    assert [row[:3] for row in found if row[2] is not None] == [
        ("a", 0, 50), ("a", 60, 50), ("b", 0, 30), ("b", 60, 30), ("b", 120, 30), ("b", 180, 130),
    ]  # fmt: skip
    assert [row[3] for row in found if row[2] is None] == [None] * 8


def test_lag_in_seconds_is_interpolated_within_a_batch(tmp_path: Path) -> None:
    """The committed offset is in the middle of a batch whose records span 1,000 seconds. The lag
    must be the same as for a topic with one batch per record."""
    history = History().commit(1090, "a", 500)
    whole = Relations(tmp_path, history.rows, [stretch(0, 0, 1000, last_s=1000)], as_of=1100)
    (tmp_path / "short").mkdir()
    short = [stretch(each, each, each) for each in range(1001)]
    exact = Relations(tmp_path / "short", history.rows, short, as_of=1100)

    assert lag_of(whole)[-1] == (1100, 501, 600, 500)
    assert lag_of(exact)[-1] == (1100, 501, 600, 0)


def test_lag_of_a_past_window_is_computed_at_the_end_of_the_window(tmp_path: Path) -> None:
    """Records that were written after the end of the window do not count as unread. Their
    timestamps count as right, although they are after the as-of time."""
    topic = [stretch(30, 0, 9), stretch(100, 10, 19), stretch(5000, 20, 29)]
    history = History().commit(40, "a", 4)

    made = Relations(tmp_path, history.rows, topic, as_of=120, read=9000)

    assert lag_of(made) == [(60, 6, 30, 0), (120, 16, 90, 0)]


def test_table_lag_covers_the_selected_time_window_and_by_default_one_day(tmp_path: Path) -> None:
    history = History().commit(10, "a", 50).commit(70, "a", 60)
    day = Relations(tmp_path, history.rows, as_of=200_000)
    (tmp_path / "window").mkdir()
    asked = Relations(tmp_path / "window", history.rows, since=86_000, as_of=86_170)

    assert len(lag_of(day)) == 1441
    assert lag_of(day)[0][0] == 113_640
    assert lag_of(asked, "minute", "as_of", "committed_offset", "lag_records") == [
        (85_980, 86_040, 60, None),
        (86_040, 86_100, 60, None),
        (86_100, 86_160, 60, None),
        (86_160, 86_170, 60, None),
    ]


def test_time_steps_of_the_lag_table_are_longer_in_a_long_window_with_many_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lag, "MOST_ROWS", 100)
    history = History().commit(10, "a", 1).commit(500, "a", 50).commit(8_000, "b", 7)

    made = Relations(tmp_path, history.rows, [stretch(9_000, 0, 99)], since=0, as_of=9_000)

    found = lag_of(made, "group_id", "minute", "step_s", "as_of", "committed_offset")
    assert found[:3] == [
        ("a", 0, 300, 300, 1), ("a", 300, 300, 600, 50), ("a", 600, 300, 900, 50),
    ]  # fmt: skip
    assert found[-1] == ("b", 8_700, 300, 9_000, 7)
    assert made.rows("catch_up", "observed_s", by="group_id")[0] == (600,), "minutes all the same"


@pytest.mark.parametrize("ahead_s", [3_600, 1e9])
def test_records_with_future_timestamps_count_as_lag(tmp_path: Path, ahead_s: float) -> None:
    """The last five records have a timestamp in the future. So it is only known that they arrived
    after the timestamp of the previous record, and before the log was read."""
    topic = [stretch(0, 0, 9), stretch(100, 10, 19), stretch(ahead_s, 20, 24)]
    history = History().commit(30, "a", 20)

    made = Relations(tmp_path, history.rows, topic, as_of=300)

    assert lag_of(made)[-1] == (300, 5, 100, 100)
    assert made.rows("catch_up", "verdict", by="group_id") == [("stopped",)]


def test_records_read_just_after_the_as_of_time_count_as_lag(tmp_path: Path) -> None:
    """The as-of time is 300 seconds, and the broker was read at 301 seconds. The last records
    arrived at an unknown time before the read."""
    topic = [stretch(0, 0, 19, last_s=300), stretch(3_600, 20, 24), seen(301, 25)]
    history = History().commit(30, "a", 20)

    made = Relations(tmp_path, history.rows, topic, as_of=300, read=302)

    assert lag_of(made)[-1][:3] == (300, 5, 0)


def test_lag_assumes_that_records_arrive_in_offset_order(tmp_path: Path) -> None:
    topic = [stretch(0, 0, 9), stretch(3_000, 10, 19), stretch(110, 20, 24), stretch(130, 25, 29)]
    history = History().commit(30, "a", 10)

    made = Relations(tmp_path, history.rows, topic, as_of=4_000)

    found = lag_of(made, "as_of", "end_offset", *LAG[1:])
    # The later records could also be old, and record 10 could arrive later: within an hour this is
    # undecidable.
    assert found[:3] == [(60, 20, 10, 5, 55), (120, 25, 15, 65, 65), (180, 30, 20, 125, 125)]


def test_copied_old_records_do_not_increase_the_age_of_earlier_records(tmp_path: Path) -> None:
    """The timestamps of the copied records are from last year. A group whose committed offset is
    before the copies must not have a lag of a year."""
    topic = [stretch(each, each, each) for each in range(0, 100)]
    topic += [stretch(each - YEAR, each, each) for each in range(100, 110)]
    topic += [stretch(each, each, each) for each in range(110, 130)]
    history = History().commit(10, "a", 90)

    made = Relations(tmp_path, history.rows, topic, as_of=130)

    assert lag_of(made, "as_of", "end_offset", *LAG[1:]) == [
        (60, 90, 0, 0, 0), (120, 121, 31, 30, 0), (130, 130, 40, 40, 0),
    ]  # fmt: skip


def test_lag_in_seconds_at_a_copied_record_is_the_time_since_its_arrival(tmp_path: Path) -> None:
    topic = [stretch(0, 0, 9), stretch(60, 10, 19), stretch(-YEAR, 20, 29), stretch(80, 30, 39),
             stretch(90, 40, 49)]  # fmt: skip
    history = History().commit(65, "a", 20)

    made = Relations(tmp_path, history.rows, topic, as_of=100)

    assert lag_of(made) == [(100, 30, 30, 10)]


def test_lag_in_seconds_is_unknown_when_all_timestamps_are_in_the_future(tmp_path: Path) -> None:
    """The only known time of arrival is the time at which the pipeline read the topic, and this
    time is after the as-of time."""
    topic = [start(200.2, 0), stretch(9_000, 0, 0),
             stretch(0, 1, 9, first_at=None, last_at=None), seen(200.2, 10)]  # fmt: skip
    history = History().commit(150, "a", 3)

    made = Relations(tmp_path, history.rows, topic, as_of=200)

    assert lag_of(made)[-1] == (200, 7, None, None)


def test_timestamps_slightly_ahead_of_the_clock_of_the_broker_are_accepted(tmp_path: Path) -> None:
    made = Relations(
        tmp_path,
        History().commit(30, "a", 9).rows,
        [stretch(0, 0, 9), stretch(102, 10, 19), seen(100, 20)],
        as_of=100,
    )

    assert lag_of(made)[-1] == (100, 11, 100, 0)
    off = ("base_offset", "early_ms", "late_ms")
    assert made.rows("arrivals", *off, by="base_offset, seen") == [
        (0, 0, 0), (10, 2000, 2000), (20, 0, 0),
    ]  # fmt: skip


def test_lag_uses_observed_log_end_offsets_when_record_timestamps_are_wrong(
    tmp_path: Path,
) -> None:
    topic = [seen(50, 10), stretch(YEAR, 10, 19), seen(70, 20), stretch(2 * YEAR, 20, 29)]
    history = History().commit(40, "a", 10)

    made = Relations(tmp_path, history.rows, topic, as_of=400)

    found = lag_of(made, "as_of", "end_offset", *LAG[1:])
    assert found[0] == (60, 20, 10, 0, 10)
    assert found[-1] == (400, 30, 20, 340, 10)


def test_lag_in_seconds_uses_timestamps_of_records_appended_after_a_log_end_was_observed(
    tmp_path: Path,
) -> None:
    topic = [stretch(-20_000, 0, 9), stretch(-19_000, 10, 19)]
    history = History().commit(50, "a", 15)

    made = Relations(tmp_path, history.rows, topic, as_of=60)
    seen_too = Relations(tmp_path / "seen", history.rows, [*topic, seen(-20_000, 10)], as_of=60)

    assert lag_of(made) == [(60, 5, None, None)]
    assert lag_of(seen_too) == [(60, 5, 19_060, 0)]


def test_lag_in_seconds_is_unknown_when_records_have_no_timestamps(tmp_path: Path) -> None:
    topic = [stretch(0, 0, 9, first_at=None, last_at=None)]

    made = Relations(tmp_path, History().commit(5, "a", 4).rows, topic, as_of=60)

    assert lag_of(made) == [(60, 6, None, None)]


def test_lag_in_seconds_is_unknown_when_the_log_has_only_copied_records(
    tmp_path: Path,
) -> None:
    """The timestamps of the topic's records are a year older than the group's commit."""
    topic = [stretch(-YEAR, 0, 499, last_s=1 - YEAR)]

    made = Relations(tmp_path, History().commit(5, "a", 0).rows, topic, as_of=11, read=5)

    assert lag_of(made, *LAG, "unread_at") == [(11, 500, None, None, None)]


def test_lag_precision_covers_the_whole_time_in_which_the_record_may_have_arrived(
    tmp_path: Path,
) -> None:
    """ListOffsets returned two records that are 50 s apart. The committed offsets are between these
    records."""
    topic = [stretch(0, 0, 100, last_s=50)]
    history = History().commit(5, "before", 20).commit(5, "close", 80)

    made = Relations(tmp_path, history.rows, topic, since=0, as_of=12, read=60)

    assert lag_of(made, "group_id", "lag_records", "lag_s", "lag_precision_s") == [
        ("before", 5, 2, 10),  # the record arrived between 0 and 12 seconds
        ("close", 0, 0, 12),
    ]


def test_lag_of_an_empty_topic_is_0(tmp_path: Path) -> None:
    made = Relations(tmp_path, History().commit(5, "a", 0).rows, [seen(50, 0)], as_of=60)

    assert lag_of(made) == [(60, 0, 0, 0)]


def test_offset_above_the_log_end_has_negative_lag(tmp_path: Path) -> None:
    history = History().commit(5, "a", 10_010).commit(5, "far", 2**63 - 1)

    made = Relations(tmp_path, history.rows, [stretch(0, 0, 9)], as_of=60)

    assert lag_of(made)[0] == (60, -10_000, None, None)
    assert made.rows("catch_up", "verdict", "never", by="group_id")[0] == ("out of range", False)


def test_interpolated_log_end_offset_is_not_below_a_committed_offset(tmp_path: Path) -> None:
    """The log end offset between two looked-up records is interpolated: about 600 at 60 s. The
    commit of offset 900 at 50 s shows that the log end offset was at least 900, so the lag at 60 s
    is 0."""
    topic = [stretch(0, 0, 1000, last_s=100)]

    made = Relations(tmp_path, History().commit(50, "a", 900).rows, topic, as_of=100)

    assert lag_of(made) == [(60, 0, 0, 60), (100, 101, 10, 90)]


@pytest.mark.parametrize(
    "topic",
    [
        [stretch(0, 0, 1000, last_s=100)],
        [stretch(0, 0, 399, last_s=100), stretch(YEAR, 400, 400),
         stretch(0, 401, 999, first_at=None, last_at=None), seen(100, 1000)],
    ],
    ids=["between two times", "behind a date in the future"],
)  # fmt: skip
def test_lag_at_a_past_time_is_0_when_the_commit_is_above_the_log_end(
    tmp_path: Path, topic: list[dict[str, Any]]
) -> None:
    """The archive contains the log end offset at a later time than the as-of time. The log end
    offset at the as-of time is therefore interpolated, and is below the committed offset."""
    made = Relations(tmp_path, History().commit(20, "a", 900).rows, topic, as_of=30, read=200)

    [(_, unread, age_s, precision_s)] = lag_of(made)
    assert (unread, age_s) == (0, 0)
    assert precision_s >= 10
    assert made.rows("catch_up", "verdict", by="group_id") == [("caught up",)]


def test_deleted_records_count_as_lost_instead_of_lag(tmp_path: Path) -> None:
    history = History().commit(10, "a", 5).commit(10, "b", 30)
    topic = [stretch(0, 20, 49), start(125, 20)]

    made = Relations(tmp_path, history.rows, topic, as_of=120)

    assert lag_of(made, "group_id", "as_of", "lag_records", "lost_records") == [
        ("a", 60, 45, None),  # the log start offset at this time is unknown
        ("a", 120, 30, 15),
        ("b", 60, 20, 0),
        ("b", 120, 20, 0),
    ]


@pytest.mark.parametrize("ends", [[], [seen(121, 50)]], ids=["files", "wire"])
def test_lag_is_exactly_0_when_all_unread_records_were_deleted(
    tmp_path: Path, ends: list[dict[str, Any]]
) -> None:
    """Retention has deleted all records of the topic. The broker was read just after the as-of
    time."""
    topic = [start(121, 50), *ends]

    made = Relations(tmp_path, History().commit(10, "a", 5).rows, topic, as_of=120, read=122)

    assert lag_of(made, *LAG, "lost_records")[-1] == (120, 0, 0, 0, 45)


def test_catch_up_verdict_follows_from_consumed_and_produced_rates(tmp_path: Path) -> None:
    """Each group reads its own partition, into which 10 records per second are produced."""
    groups = {"done": 10, "gains": 15, "level": 10, "loses": 4, "stopped": 0}
    history, topic = History(), []
    for partition, (group, pace) in enumerate(groups.items()):
        behind = 0 if group == "done" else 9000
        for minute in range(13):
            end = 9000 + 600 * minute
            topic.append(stretch(60 * minute + 59, end - 600, end - 1, partition=partition))
            if pace or not minute:
                history.commit(60 * minute + 59.5, group, 9000 - behind + 60 * pace * minute,
                               partition=partition)  # fmt: skip
    history.commit(779.5, "new", 5, partition=0)

    made = Relations(tmp_path, history.rows, topic, as_of=780)

    assert made.rows(
        "catch_up", "group_id", "verdict", "never", "catch_up_s", "lag_records", "grown_records",
        "observed_s", by="group_id",
    ) == [
        ("done", "caught up", False, 0, 0, 0, 600),
        ("gains", "catching up", False, 5400 / 5, 5400, -3000, 600),
        ("level", "level", False, None, 9000, 0, 600),
        ("loses", "falling behind", True, None, 13_320, 3600, 600),
        ("new", "not known", False, None, 16_195, 0, 0),
        ("stopped", "stopped", True, None, 16_200, 6000, 600),
    ]  # fmt: skip


def test_stopped_group_has_another_state_than_a_group_without_members(tmp_path: Path) -> None:
    """The state 'nobody runs it' means that the members of the group have left, and that no commit
    after they left has advanced an offset of the group."""
    history = History()
    for group in ("alive", "left", "alone", "reset", "odd"):
        history.commit(0, group, 10).generation(1, group, 1, member("m-1", 0))
    history.commit(500, "left", 20)
    for group in ("left", "alone", "reset"):
        history.generation(510, group, 2)
    history.generation(510, "odd", 2).unknown(511, "odd")
    history.commit(550, "alone", 30).commit(550, "reset", 5).commit(0, "never joined", 10)
    topic = [stretch(each, each, each) for each in range(600)]

    made = Relations(tmp_path, history.rows, topic, as_of=600)

    found = made.rows("catch_up", "group_id", "verdict", "member_count", by="group_id")
    assert found == [
        ("alive", "stopped", 1),
        ("alone", "falling behind", 0),
        ("left", "nobody runs it", 0),
        ("never joined", "stopped", None),
        ("odd", "stopped", None),
        ("reset", "nobody runs it", 0),
    ]


def without_members() -> History:
    """Returns a history of four groups that only commit. Two of them, `deleted` and `modern`, had
    members before their deletion. `simple` never had members. All members of `emptied` left."""
    history = History()
    history.generation(0, "deleted", 1, member("m-1", 0)).delete(5, "deleted")
    modern = ModernGroup(history, "modern")
    modern.member(0, "m-1")
    modern.epoch(0, 2)
    modern.deleted(5, "m-1")
    history.generation(6, "simple", 0, protocol_type="").generation(6, "emptied", 2)
    for group in ("deleted", "emptied", "modern", "simple"):
        history.commit(10, group, 10)
    return history


@pytest.mark.parametrize(
    ("commits_more", "verdict"), [(False, "stopped"), (True, "falling behind")]
)
def test_member_count_of_a_group_without_a_group_record_is_null(
    tmp_path: Path, commits_more: bool, verdict: str
) -> None:
    history = without_members()
    if commits_more:
        for group in ("deleted", "emptied", "modern", "simple"):
            history.commit(580, group, 20)
    topic = [stretch(each, each, each) for each in range(600)]

    made = Relations(tmp_path, history.rows, topic, as_of=600)

    found = made.rows("catch_up", "group_id", "verdict", "member_count", by="group_id")
    emptied = verdict if commits_more else "nobody runs it"
    assert found == [
        ("deleted", verdict, None), ("emptied", emptied, 0), ("modern", verdict, None),
        ("simple", verdict, None),
    ]  # fmt: skip
    rules = made.rows("expiring_offsets", "group_id", "rule", by="group_id")
    assert rules == [
        ("deleted", "its group has no members of its own"),
        ("emptied", "its group is empty"),
        ("modern", "its group has no members of its own"),
        ("simple", "its group has no members of its own"),
    ]
