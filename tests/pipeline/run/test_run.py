"""Tests that one run of a pipeline job reads its source once, writes complete tables, and can be
repeated after a kill."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from pipeline.engines.duck import DuckEngine
from pipeline.errors import PipelineError
from pipeline.model.events import DAMAGED, EVENTS, MARKER, UNKNOWN
from pipeline.model.tables import (
    CATCH_UP,
    COMMITS,
    DEAD_GROUPS,
    EXPIRING_OFFSETS,
    QUARANTINE,
    TRANSACTIONAL_COMMITS,
)
from pipeline.run.as_of import Span
from pipeline.run.catalog import JOBS, Job
from pipeline.run.jobs import Options, Step, Summary, run_job
from pipeline.run.selection import Selection
from pipeline.sources.folder import FolderSource
from pipeline.sources.open import open_source
from pipeline.sources.source import Source
from pipeline.storage.store import Store
from tests.pipeline.conftest import at
from tests.pipeline.given import GivenSource, committed, table
from tests.pipeline.relations import ms, stretch
from tests.pipeline.small_logs import batch_of, commit, write_segment

pytestmark = pytest.mark.proves("pipeline 4")

TWO = Job("two", "two tables", ("commits", "rates"))


@pytest.fixture
def source() -> GivenSource:
    damage = {"file": "00.log", "position": 77, "reason": "CRC"}
    return GivenSource(
        [
            committed(0, "a", 10),
            committed(61, "a", 40),
            committed(62, "a", 30),
            {"log_partition": 3, "log_offset": 100, "kind": DAMAGED, "damage": damage},
            {"log_partition": 4, "log_offset": 5, "kind": UNKNOWN, "raw_key": b"\0\x63"},
        ],
        [stretch(0, 0, 19), stretch(30, 20, 59), stretch(0, 0, 9, topic="nobody reads it")],
    )


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """Returns a function that runs a job with DuckDB. The tables are written to
    `tmp_path/tables`."""

    def run(job: Job, source: Source, options: Options | None = None, **more: Any) -> Summary:
        scratch = tmp_path / "scratch"
        scratch.mkdir(exist_ok=True)
        store = Store(str(tmp_path / "tables"))
        return run_job(DuckEngine(str(scratch)), job, source, store, options, **more)

    return run


def commits(tmp_path: Path, *columns: str) -> list[tuple[Any, ...]]:
    rows = table(tmp_path / "tables", "commits", COMMITS)
    rows.sort(key=lambda row: row["log_offset"])
    return [tuple(row[name] for name in columns) for row in rows]


def test_job_reads_its_source_once_and_only_topics_with_commits(
    run: Any, source: GivenSource, tmp_path: Path
) -> None:
    steps = list[Step]()

    summary = run(TWO, source, on_progress=steps.append)

    assert source.asked == ["events", "stretches of orders"]
    assert [(s.what, s.done, s.total) for s in steps] == [
        ("the history", 0, 4), ("commits", 1, 4), ("rates", 2, 4), ("quarantine", 3, 4),
        ("done", 4, 4),
    ]  # fmt: skip
    assert (summary.events, summary.damaged, summary.unknown) == (5, 1, 1)
    assert summary.moved_bytes == 77
    assert summary.engine.startswith("DuckDB 2.")
    assert summary.as_of_ms == at(62).timestamp() * 1000
    assert [(made.name, made.rows) for made in summary.tables] == [("commits", 3), ("rates", 2)]
    assert commits(tmp_path, "advanced_records", "advanced_s") == [
        (None, None), (30, 30), (-10, 0),
    ]  # fmt: skip
    [lost] = table(tmp_path / "tables", "quarantine", QUARANTINE)
    assert (lost["log_partition"], lost["log_offset"], lost["position"]) == (3, 100, 77)
    names = {path.name for path in (tmp_path / "tables").iterdir()}
    assert names == {"commits", "rates", "quarantine", "views.sql"}


def test_torn_tail_is_counted_separately_from_damage(run: Any, tmp_path: Path) -> None:
    whole, half = (batch_of(at, commit("g", "t", [7])) for at in range(2))
    write_segment(tmp_path / "log", 0, whole, half[:70])

    summary = run(JOBS["commits"], FolderSource(str(tmp_path / "log")))

    assert (summary.damaged, summary.torn) == (0, 1)
    [torn] = table(tmp_path / "tables", "quarantine", QUARANTINE)
    assert (torn["log_offset"], torn["position"]) == (1, len(whole))
    assert torn["reason"].startswith("The log ends in the middle of a batch.")


def test_existing_tables_are_rejected_before_the_source_is_read(
    run: Any, source: GivenSource, tmp_path: Path
) -> None:
    (tmp_path / "tables" / "rates").mkdir(parents=True)

    with pytest.raises(PipelineError, match="already has rates"):
        run(TWO, source)

    assert source.asked == []
    run(TWO, source, Options(overwrite=True, with_topics=False))
    assert source.asked == ["events"]
    assert commits(tmp_path, "advanced_records", "advanced_s")[1] == (30, None)


def test_failed_job_can_be_restarted_without_overwrite(
    run: Any, source: GivenSource, tmp_path: Path
) -> None:
    class Broken(RuntimeError):
        pass

    def break_at_rates(step: Step) -> None:
        if step.what == "rates":
            raise Broken

    with pytest.raises(Broken):
        run(TWO, source, on_progress=break_at_rates)
    assert {path.name for path in (tmp_path / "tables").iterdir()} == {"commits", ".two.running"}

    run(TWO, source)

    assert len(commits(tmp_path, "committed_at")) == 3
    with pytest.raises(PipelineError, match="already has commits, rates"):
        run(TWO, source)


def test_damaged_records_are_counted_even_when_the_job_selects_groups_or_times(
    run: Any, tmp_path: Path
) -> None:
    history = [
        committed(0, "team-a", 1),
        committed(1, "team_b", 2),
        committed(2, "team%", 3),
        committed(3, "o'neill\\", 4),
        {"log_partition": 0, "log_offset": 4, "kind": DAMAGED},
        committed(5, "team-a", 6),
    ]

    def selected(**wanted: Any) -> list[int]:
        options = Options(overwrite=True, selection=Selection(**wanted))
        assert run(JOBS["commits"], GivenSource(history), options).damaged == 1
        return [offset for (offset,) in commits(tmp_path, "committed_offset")]

    assert selected(groups=["team-*"]) == [1, 6]
    assert selected(groups=["team%*", "team_b"]) == [2, 3]
    assert selected(groups=["o'neill\\"]) == [4]
    assert selected(groups=["*'*"]) == [4]
    assert selected(span=Span(until_ms=ms(2))) == [1, 2]
    assert selected(partitions=[0]) == [1, 2, 3, 4, 6]


@pytest.mark.campaign
def test_as_of_time_of_a_run_is_the_end_of_the_selected_history(run: Any) -> None:
    history = [committed(0, "a", 1), committed(60, "a", 2)]

    def as_of(source: GivenSource, **span: int) -> float:
        selection = Selection(span=Span(**span))
        made = run(JOBS["commits"], source, Options(overwrite=True, selection=selection))
        return float(made.as_of_ms / 1000 - at(0).timestamp())

    class Broker(GivenSource):
        def end_ms(self) -> int:
            return ms(1000)

    assert as_of(GivenSource(history)) == 60
    assert as_of(Broker(history)) == 1000
    assert as_of(Broker(history), until_ms=ms(90)) == 90
    assert as_of(GivenSource(history), until_ms=ms(90)) == 60
    assert as_of(Broker(history), as_of_ms=ms(30)) == 30


def test_lag_of_a_selected_group_is_computed_at_the_end_of_the_archive(
    run: Any, tmp_path: Path
) -> None:
    """The archive can be months old. A group that stopped committing lags behind records that were
    written before the archive ended."""
    history = [committed(0, "quiet", 10), committed(0, "busy", 10), committed(600, "busy", 40)]
    topic = [stretch(0, 0, 9), stretch(590, 10, 39), stretch(9e9, 40, 49)]

    for span, when, behind in (
        (Span(), 600, 40),
        (Span(as_of_ms=ms(300)), 300, 0),
        (Span(as_of_ms=ms(86_400 * 40)), 86_400 * 40, 40),
    ):
        selection = Selection(groups=["quiet"], span=span)
        run(JOBS["lag"], GivenSource(history, topic), Options(overwrite=True, selection=selection))
        [row] = table(tmp_path / "tables", "catch_up", CATCH_UP)
        assert (row["as_of"], row["lag_records"]) == (at(when), behind)


def test_groups_expire_only_when_the_as_of_time_is_after_the_end_of_the_archive(
    run: Any, tmp_path: Path
) -> None:
    source = GivenSource([committed(0, "a", 10), committed(600, "a", 40)])

    for span, expired, dead in (
        (Span(), False, []),
        (Span(as_of_ms=ms(600 + 8 * 86_400)), True, ["a"]),
    ):
        options = Options(overwrite=True, selection=Selection(span=span))
        run(JOBS["retention"], source, options)
        [row] = table(tmp_path / "tables", "expiring_offsets", EXPIRING_OFFSETS)
        groups = table(tmp_path / "tables", "dead_groups", DEAD_GROUPS)
        assert (row["expired"], [each["group_id"] for each in groups]) == (expired, dead)


def test_history_ends_with_the_newest_topic_record(run: Any, tmp_path: Path) -> None:
    """If all groups stopped committing before the newest record of a topic, the as-of time is the
    time of this record."""
    topic = [stretch(0, 0, 9), stretch(7200, 10, 39)]

    made = run(JOBS["lag"], GivenSource([committed(0, "a", 10)], topic))

    assert made.as_of_ms == ms(7200)
    assert table(tmp_path / "tables", "catch_up", CATCH_UP)[0]["verdict"] == "stopped"


def test_records_after_the_as_of_time_are_ignored(run: Any, tmp_path: Path) -> None:
    marker = {"log_partition": 0, "log_offset": 2, "written_at": at(2), "kind": MARKER,
              "producer_id": 7, "marker": "commit"}  # fmt: skip
    source = GivenSource(
        [committed(0, "a", 1), committed(1, "a", 2, producer_id=7), marker, committed(3, "a", 4)]
    )

    run(JOBS["commits"], source, Options(selection=Selection(span=Span(as_of_ms=ms(1)))))

    assert commits(tmp_path, "committed_offset") == [(1,)]
    [written] = table(tmp_path / "tables", "transactional_commits", TRANSACTIONAL_COMMITS)
    assert written["outcome"] == "open"


def test_previous_offset_of_the_first_commit_in_a_window_is_from_before_the_window(
    run: Any, tmp_path: Path
) -> None:
    source = GivenSource([committed(0, "a", 1), committed(60, "a", 5), committed(70, "a", 6)])

    run(JOBS["commits"], source, Options(selection=Selection(span=Span(since_ms=ms(60)))))

    assert commits(tmp_path, "committed_offset", "previous_offset") == [(5, 1), (6, 5)]


def test_every_job_rejects_a_topic_that_does_not_exist(run: Any, source: GivenSource) -> None:
    for job in (TWO, JOBS["churn"], JOBS["retention"]):
        with pytest.raises(PipelineError, match="given has no topic gone"):
            run(job, source, Options(topics=["orders", "gone"]))
    run(JOBS["churn"], source, Options(topics=["orders"]))


def test_empty_history_gives_empty_tables(run: Any, tmp_path: Path) -> None:
    summary = run(TWO, GivenSource([]))

    assert [made.rows for made in summary.tables] == [0, 0]
    assert (summary.events, summary.damaged, summary.unknown) == (0, 0, 0)
    assert commits(tmp_path, "committed_at") == []


@pytest.mark.campaign
def test_run_reads_the_table_events_of_an_earlier_run_and_does_not_overwrite_it(
    run: Any, source: GivenSource, tmp_path: Path
) -> None:
    run(JOBS["all"], source)
    tables = tmp_path / "tables"
    before = table(tables, "events", EVENTS)

    summary = run(JOBS["all"], open_source(str(tables)), Options(overwrite=True))

    assert {made.name for made in summary.tables}.isdisjoint({"events", "stretches"})
    assert (summary.events, summary.damaged) == (5, 1)
    assert table(tables, "events", EVENTS) == before
    assert commits(tmp_path, "advanced_s") == [(None,), (30,), (0,)]
    with pytest.raises(PipelineError, match="has no topic gone"):
        run(TWO, open_source(str(tables)), Options(overwrite=True, topics=["gone"]))


def test_archive_is_never_overwritten(run: Any, source: GivenSource, tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    (tables / "events").mkdir(parents=True)
    (tables / "_archive.json").write_text("{}")

    with pytest.raises(PipelineError, match=r"is an archive that grows.*choose another --out"):
        run(JOBS["all"], source, Options(overwrite=True))
    assert run(TWO, source).events == 5


def test_tables_of_another_cluster_are_rejected(run: Any, source: GivenSource) -> None:
    source.cluster_id = "one"
    run(TWO, source)
    source.cluster_id = "two"
    with pytest.raises(PipelineError, match=r"tables of cluster one.*choose another --out"):
        run(JOBS["events"], source)


def test_old_table_is_kept_when_a_run_is_killed_while_replacing_the_table(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    store.write("numbers", lambda folder: Path(folder).mkdir())
    (tmp_path / "numbers").rename(tmp_path / ".numbers.old")
    (tmp_path / ".numbers.partial").mkdir()

    assert store.has("numbers")
    with pytest.raises(PipelineError, match="already has numbers"):
        store.write("numbers", lambda folder: Path(folder).mkdir())
    store.write("numbers", lambda folder: Path(folder).mkdir(), overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["numbers"]


@pytest.mark.parametrize("before", [False, True])
def test_run_is_rejected_while_another_run_writes_the_same_folder(
    run: Any, source: GivenSource, tmp_path: Path, before: bool
) -> None:
    """The error names the process of the first run. The tables of the first run are complete."""
    if before:
        run(TWO, source)
    refused = list[str]()

    def begin_another(step: Step) -> None:
        if step.what == "rates":
            for job in (TWO, JOBS["churn"]):
                with pytest.raises(PipelineError) as raised:
                    run(job, source, Options(overwrite=True))
                refused.append(str(raised.value))

    made = run(TWO, source, Options(overwrite=before), on_progress=begin_another)

    [said] = set(refused)
    assert said.startswith(f"{tmp_path / 'tables'} is being written by process {os.getpid()} on ")
    assert said.endswith(": wait until that process ends, or stop it")
    assert [each.rows for each in made.tables] == [3, 2]
    assert len(commits(tmp_path, "committed_at")) == 3
    names = {path.name for path in (tmp_path / "tables").iterdir()}
    assert names == {"commits", "rates", "quarantine", "views.sql"}
    assert run(TWO, source, Options(overwrite=True)).events == 5


def test_run_does_not_replace_tables_that_another_run_made_after_its_start(
    run: Any, source: GivenSource, tmp_path: Path
) -> None:
    def make_them_first(step: Step) -> None:
        if step.what == "the history":
            run(TWO, source)

    with pytest.raises(PipelineError, match="already has commits, rates"):
        run(TWO, source, on_progress=make_them_first)

    assert {path.name for path in (tmp_path / "tables").iterdir()} == {
        "commits", "rates", "quarantine", "views.sql",
    }  # fmt: skip


def test_reader_does_not_restore_a_table_that_a_run_is_replacing(tmp_path: Path) -> None:
    """A reader restores the old table only if the run that was replacing the table was killed."""
    writer, reader = Store(str(tmp_path)), Store(str(tmp_path))
    writer.write("numbers", lambda folder: Path(folder).mkdir())
    writer.reserve()
    (tmp_path / "numbers").rename(tmp_path / ".numbers.old")

    assert not reader.has("numbers")

    writer.close()
    assert reader.has("numbers")
    assert [path.name for path in tmp_path.iterdir()] == ["numbers"]
