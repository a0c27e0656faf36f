"""Tests that a run rejects a selection that matches no record, and writes no file in this case."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.engines.duck import DuckEngine
from pipeline.errors import PipelineError
from pipeline.run.as_of import Span
from pipeline.run.catalog import JOBS
from pipeline.run.compare import Question, Window, compare
from pipeline.run.jobs import Options, run_job
from pipeline.run.selection import Selection
from pipeline.sources.open import open_source
from pipeline.sources.source import Source
from pipeline.storage.archive import Archive
from pipeline.storage.store import Store
from tests.cli.running import run
from tests.pipeline.archives import START_MS, commits
from tests.pipeline.given import GivenSource, committed
from tests.pipeline.relations import ms
from tests.pipeline.small_logs import batch_of, commit, write_segment


def source() -> GivenSource:
    """Returns a history in which group `early` commits after 10 and 20 seconds, and group `late`
    after 60 seconds."""
    return GivenSource(
        [committed(10, "early", 1), committed(20, "early", 2), committed(60, "late", 3)]
    )


def made(tmp_path: Path, of: Source, job: str = "commits", **wanted: Any) -> list[int]:
    """Runs a job and returns the number of rows of each table."""
    options = Options(overwrite=wanted.pop("overwrite", False), selection=Selection(**wanted))
    (tmp_path / "scratch").mkdir(exist_ok=True)
    store = Store(str(tmp_path / "tables"))
    summary = run_job(DuckEngine(str(tmp_path / "scratch")), JOBS[job], of, store, options)
    return [table.rows for table in summary.tables]


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"groups": ["nosuch"]}, "given has no group nosuch: --group accepts names, and patterns"),
        ({"groups": ["early", "x", "y*"]}, r"given has no group x, y\*: "),
        ({"groups": ["*'*"]}, r"given has no group \*'\*: "),
        (
            {"span": Span(as_of_ms=ms(9.999))},
            "no records up to 2026-01-01T00:00:09Z: the history begins at 2026-01-01T00:00:10Z",
        ),
        (
            {"span": Span(until_ms=ms(10))},
            "no records before 2026-01-01T00:00:10Z: the history begins",
        ),
        (
            {"span": Span(until_ms=ms(9), as_of_ms=ms(99))},
            "no records before 2026-01-01T00:00:09Z: the history begins",
        ),
        (
            {"groups": ["early", "late"], "span": Span(as_of_ms=ms(59))},
            "no records up to 2026-01-01T00:00:59Z: group late begins at 2026-01-01T00:01:00Z",
        ),
    ],
)
@pytest.mark.parametrize("job", ["commits", "generations"])
def test_selection_that_matches_no_record_is_rejected_before_any_write(
    tmp_path: Path, job: str, wanted: dict[str, Any], said: str
) -> None:
    with pytest.raises(PipelineError, match=said):
        made(tmp_path, source(), job, **wanted)
    assert not (tmp_path / "tables").exists()


def test_job_that_selects_one_record_writes_one_row(tmp_path: Path) -> None:
    def rows(**wanted: Any) -> int:
        return made(tmp_path, source(), overwrite=True, **wanted)[0]

    assert rows(span=Span(as_of_ms=ms(10))) == 1
    assert rows(span=Span(until_ms=ms(10.001))) == 1
    assert rows(groups=["l*"], span=Span(as_of_ms=ms(60))) == 1


def test_run_on_an_empty_history_fails_only_when_a_group_is_selected(tmp_path: Path) -> None:
    assert made(tmp_path, GivenSource([]), span=Span(as_of_ms=ms(9))) == [0, 0]
    with pytest.raises(PipelineError, match="has no group early"):
        made(tmp_path, GivenSource([]), overwrite=True, groups=["early"])


def test_run_without_overwrite_keeps_tables_after_an_earlier_run_with_overwrite_failed(
    tmp_path: Path,
) -> None:
    made(tmp_path, source())
    with pytest.raises(PipelineError, match="has no group nosuch"):
        made(tmp_path, source(), overwrite=True, groups=["nosuch"])
    with pytest.raises(PipelineError, match="already has commits"):
        made(tmp_path, source())


def test_run_rejects_a_selected_partition_that_its_source_does_not_have(tmp_path: Path) -> None:
    tables, archive = tmp_path / "tables", tmp_path / "archive"
    made(tmp_path, source(), "events")
    with Archive.open(str(archive)) as growing:
        growing.append([commits(0, range(3))], next_offsets={0: 3, 1: 0}, read_until_ms=START_MS)
    out = tmp_path / "out"

    def ran(where: Path, partitions: list[int]) -> int:
        return made(out, open_source(str(where)), overwrite=True, partitions=partitions)[0]

    out.mkdir()
    for where, said in (
        (tables, "has no record of partition 9 of __consumer_offsets"),
        (archive, "has no partition 9 of __consumer_offsets"),
    ):
        with pytest.raises(PipelineError, match=said):
            ran(where, [9])
        assert ran(where, [0]) == 3
    assert ran(archive, [1]) == 0, "it is there, and empty"


def test_compare_rejects_an_unknown_group_and_a_time_window_before_the_history_begins(
    tmp_path: Path,
) -> None:
    def compared(first: Window, *groups: str) -> list[str]:
        question = Question(first, Window(ms(30), ms(61)), groups=groups or None)
        found = compare(DuckEngine(str(tmp_path)), source(), question, lambda _: None)
        return [row.group_id for row in found.rows]

    assert compared(Window(ms(0), ms(30)), "late") == ["late"]
    with pytest.raises(PipelineError, match="has no group nosuch"):
        compared(Window(ms(0), ms(30)), "late", "nosuch")
    with pytest.raises(PipelineError, match="the history begins at 2026-01-01T00:00:10Z"):
        compared(Window(ms(0), ms(10)))


@pytest.mark.parametrize("job", [*JOBS, "compare"])
def test_every_command_exits_1_for_an_unknown_group(tmp_path: Path, job: str) -> None:
    history = tmp_path / "history"
    write_segment(history, 0, batch_of(0, commit("billing", "orders", [10])))
    words = ["--source", str(history), "--group", "nosuch"]
    words += (
        ["--first", "2026-01-01T12:00Z/1h", "--second", "2026-01-01T11:30Z/1h"]
        if job == "compare"
        else ["--out", str(tmp_path / "out")]
    )

    ran = run("pipeline", job, *words)

    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"muster: {history} has no group nosuch: ")
    assert len(ran.err.splitlines()) == 1
    assert not (tmp_path / "out").exists()
