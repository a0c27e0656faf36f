"""Tests of `compare`, which compares two time windows of one history: figures, new groups and
removed groups."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pipeline.engines.duck import DuckEngine
from pipeline.errors import PipelineError
from pipeline.model.events import ABORTED
from pipeline.run.compare import Comparison, Question, Window, compare
from tests.cli.running import run
from tests.pipeline.given import GivenSource
from tests.pipeline.history import History, member
from tests.pipeline.relations import ms, stretch
from tests.pipeline.small_logs import NOON, batch_of, commit, write_segment

pytestmark = pytest.mark.pipeline

HOUR = 3600


def window(hour: int) -> Window:
    return Window(ms(hour * HOUR), ms((hour + 1) * HOUR))


def history() -> GivenSource:
    """Returns a history of two hours. In the second hour, group `a` is slower, and group `came`
    starts. Group `left` is deleted before the second hour."""
    events = History()
    events.generation(10, "a", 1, member("m-1", 0)).commit(20, "a", 0).commit(30, "left", 5)
    for minute in range(1, 60):
        events.commit(60 * minute, "a", 100 * minute)
    events.commit(3590, "left", 9).forget(3595, "left").delete(3595, "left")
    events.commit(4000, "a", 5950).commit(4100, "a", 5930).commit(4200, "a", 6000)
    events.commit(4300, "a", 9999, producer_id=7).marker(4301, 7, ABORTED)
    events.generation(4400, "a", 2, member("m-1", 0), member("m-2"))
    events.commit(5000, "came", 10).commit(7000, "came", 20, topic="else")
    topic = [stretch(60 * minute, 100 * minute, 100 * minute + 99) for minute in range(120)]
    return GivenSource(events.rows, topic)


def asked(tmp_path: Path, source: GivenSource, **more: Any) -> Comparison:
    return compare(
        DuckEngine(str(tmp_path)), source, Question(window(0), window(1), **more), lambda _: None
    )


def numbers(told: Mapping[str, float | None] | None) -> tuple[float | None, ...] | None:
    if told is None:
        return None
    names = ("commits", "read_records", "rewinds", "rewound_records", "rebalances")
    return tuple(told[name] for name in (*names, "most_lag_records", "most_lag_s"))


def test_comparison_has_the_figures_of_two_time_windows_and_their_difference(
    tmp_path: Path,
) -> None:
    source = history()

    found = asked(tmp_path, source)

    rows = {each.group_id: (numbers(each.first), numbers(each.second)) for each in found.rows}
    assert rows == {
        "a": ((60, 5900, 0, 0, 0, 200, 60), (3, 120, 1, 20, 1, 6000, 3540)),
        "came": (None, (2, 0, 0, 0, 0, 11990, 7140)),
        "left": ((2, 4, 0, 0, 0, 5995, 3540), None),
    }
    assert [each.news for each in found.rows] == [None, "new", "gone"]
    assert (found.first, found.second.since_ms) == (window(0), ms(HOUR))
    assert source.asked.count("events") == 1
    [a, came, _] = found.rows
    assert a.change is not None
    assert (a.change["commits"], a.change["most_lag_records"]) == (-57, 5800)
    assert a.first is not None
    assert a.first["read_per_s"] == pytest.approx(5900 / HOUR)
    assert came.change is None


def test_comparison_by_topic_has_a_row_per_group_and_topic(tmp_path: Path) -> None:
    found = asked(tmp_path, history(), by_topic=True, groups=["came"])

    assert [(each.topic, each.second and each.second["commits"]) for each in found.rows] == [
        ("else", 1), ("orders", 1),
    ]  # fmt: skip
    assert all(each.second and each.second["rebalances"] is None for each in found.rows)


def test_time_window_after_the_end_of_the_history_is_rejected(tmp_path: Path) -> None:
    engine = DuckEngine(str(tmp_path))

    with pytest.raises(PipelineError, match="no records after 2026-01-01T05:00:00Z"):
        compare(engine, history(), Question(window(0), window(5)), lambda _: None)


def test_compare_prints_new_groups_and_changes(tmp_path: Path) -> None:
    minutes = ((0, "old", 1), (1, "both", 10), (2, "both", 30), (61, "both", 35), (62, "fresh", 1))
    batches = [
        batch_of(nth, commit(group, "orders", [offset], NOON + 60_000 * minute),
                 at_ms=NOON + 60_000 * minute)
        for nth, (minute, group, offset) in enumerate(minutes)
    ]  # fmt: skip
    source = write_segment(tmp_path / "history", 0, *batches).parent.parent
    words = ["pipeline", "compare", "--source", str(source), "--no-topics"]
    spans = ["--first", "2026-01-01T12:00Z/1h", "--second", "2026-01-01T13:00Z/2026-01-01T14:00Z"]

    shown = run(*words, *spans)
    told = run(*words, *spans, "--json", "--by-topic")
    early = run(*words, "--first", "2026-01-01T10:00Z/121m", *spans[2:])
    before = run(*words, "--first", "2026-01-01T10:00Z/2h", *spans[2:])

    assert (shown.code, told.code, early.code) == (0, 0, 0), shown.err + told.err
    assert (before.code, "no records before 2026-01-01T12:00:00Z" in before.err) == (1, True)
    assert shown.out.startswith(
        "compare: first 2026-01-01T12:00:00.000Z to 2026-01-01T13:00:00.000Z, second"
        " 2026-01-01T13:00:00.000Z to 2026-01-01T13:02:00.000Z; DuckDB"
    )
    [both] = [line for line in shown.out.splitlines() if line.startswith("both")]
    assert "2 > 1 (-50%)" in both
    assert "20 > 5 (-75%)" in both
    assert "groups only in the second window: fresh" in shown.err
    assert "window begins before the history, which begins at 2026-01-01T12:00:00.000Z" in early.err
    [row] = [each for each in told.json["rows"] if each["group_id"] == "both"]
    assert (row["topic"], row["change"]["read_records"], row["news"]) == ("orders", -15, None)
    assert row["first"]["most_lag_s"] is None


@pytest.mark.parametrize(
    ("spans", "why"),
    [
        ([], "--first is missing: write this time window as FROM/TO"),
        (["--first", "2026-01-01", "--second", "2026-01-01/1h"], "is invalid: write FROM/TO"),
        (["--first", "2026-01-01/", "--second", "2026-01-01/1h"], "is invalid: write FROM/TO"),
        (
            ["--first", "2026-01-02/2026-01-01", "--second", "2026-01-01/1h"],
            "must be after the start",
        ),
        (
            ["--first", "2026-01-02/soon", "--second", "2026-01-01/1h"],
            "write the time as 2026-01-31T",
        ),
    ],
)
def test_malformed_time_window_is_rejected(spans: list[str], why: str, tmp_path: Path) -> None:
    ran = run("pipeline", "compare", "--source", str(tmp_path), *spans)

    assert ran.code == 2
    assert why in ran.err
