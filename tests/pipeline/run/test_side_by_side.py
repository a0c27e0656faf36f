"""Tests of concurrent tasks. A task starts after the tasks that it needs, and the first failure
ends all tasks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from pipeline.engines.duck import DuckEngine
from pipeline.errors import PipelineError
from pipeline.run.catalog import Job
from pipeline.run.jobs import Step, run_job
from pipeline.run.side_by_side import Task, side_by_side
from pipeline.storage.store import Store
from tests.pipeline.given import GivenSource, committed

WITHIN_S = 30.0


class Tasks:
    """Test tasks that record when they start and end."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.interrupted = threading.Event()
        self.both = threading.Barrier(2)
        self._all: list[Task] = []

    def add(self, name: str, *needs: str, work: Callable[[], object] = lambda: None) -> None:
        def do() -> None:
            work()
            self.ended.append(name)

        self._all.append(Task(name, needs, do))

    def meet(self) -> None:
        """Waits until two tasks are in this method at the same time."""
        self.both.wait(WITHIN_S)

    def hang(self) -> None:
        self.meet()
        assert self.interrupted.wait(WITHIN_S)

    def run(self, at_once: int) -> None:
        side_by_side(self._all, at_once, self._begin, self.interrupted.set)

    def _begin(self, task: Task) -> None:
        self.begun.append(task.name)


@pytest.fixture
def tasks() -> Iterator[Tasks]:
    before = threading.active_count()
    yield Tasks()
    assert threading.active_count() == before, "all threads have ended"


def test_two_tables_of_a_pipeline_run_are_computed_concurrently(tasks: Tasks) -> None:
    tasks.add("commits", work=tasks.meet)
    tasks.add("generations", work=tasks.meet)

    tasks.run(2)

    assert sorted(tasks.ended) == ["commits", "generations"]
    assert not tasks.interrupted.is_set()


def test_task_waits_only_for_the_tasks_that_it_needs(tasks: Tasks) -> None:
    tasks.add("offset_changes", "events")
    tasks.add("commits", "offset_changes", work=tasks.meet)
    tasks.add("rates", "commits", work=lambda: tasks.ended.index("commits"))
    tasks.add("generations", work=tasks.meet)  # commits ends only after generations has started

    tasks.run(2)

    assert tasks.begun == ["offset_changes", "generations", "commits", "rates"]
    assert set(tasks.ended) == set(tasks.begun)


def test_concurrent_tasks_do_not_exceed_the_limit(tasks: Tasks) -> None:
    flying: list[int] = []
    most: list[int] = []

    def work() -> None:
        flying.append(1)
        most.append(len(flying))
        flying.pop()

    for name in "abcdefgh":
        tasks.add(name, work=work)
    tasks.run(3)

    assert max(most) <= 3
    assert tasks.begun == list("abcdefgh")


def test_first_failure_is_raised_after_the_other_tasks_have_ended(tasks: Tasks) -> None:
    def fail() -> None:
        tasks.meet()
        raise PipelineError("the disk is full")

    def end_of_its_own() -> None:
        tasks.hang()
        raise RuntimeError("interrupted")

    tasks.add("commits", work=end_of_its_own)
    tasks.add("generations", work=fail)
    tasks.add("compaction")

    with pytest.raises(PipelineError, match="the disk is full"):
        tasks.run(2)

    assert tasks.begun == ["commits", "generations"]
    assert tasks.ended == []


def test_ctrl_c_ends_the_running_tasks(tasks: Tasks) -> None:
    tasks.add("commits", work=tasks.hang)
    tasks.add("generations", work=tasks.meet)
    tasks.add("rates", "generations")

    def interrupted(task: Task) -> None:
        if task.name == "rates":
            raise KeyboardInterrupt

    tasks._begin = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        tasks.run(2)

    assert tasks.ended == ["generations", "commits"]


def test_no_thread_is_started_when_the_limit_is_one_task(tasks: Tasks) -> None:
    here = threading.current_thread()
    tasks.add("commits", work=lambda: tasks.ended.append(threading.current_thread().name))
    tasks.add("rates", "commits")

    tasks.run(1)

    assert tasks.ended == [here.name, "commits", "rates"]


class Waiting(DuckEngine):
    """A DuckDB engine that writes two chosen tables only if both are written at the same time."""

    def __init__(self, scratch: Path) -> None:
        scratch.mkdir(exist_ok=True)
        super().__init__(str(scratch))
        self.both = threading.Barrier(2)
        self.written: list[str] = []
        self.fails = ""

    def write(self, sql: str, schema: pa.Schema, folder: str, by: str | None) -> None:
        name = folder.rpartition("/.")[2].removesuffix(".partial")
        if name in ("generations", "transactional_commits"):
            self.both.wait(WITHIN_S)
        if name == self.fails:
            raise PipelineError("the disk is full")
        super().write(sql, schema, folder, by)
        self.written.append(name)


APART = Job("apart", "two that are apart", ("generations", "churn", "transactional_commits"))


def test_job_writes_each_table_after_the_tables_that_this_table_is_computed_from(
    tmp_path: Path,
) -> None:
    engine = Waiting(tmp_path / "scratch")
    steps: list[Step] = []
    source = GivenSource([committed(0, "a", 10), committed(61, "a", 40)])

    made = run_job(engine, APART, source, Store(str(tmp_path / "out")), None, steps.append)

    assert [table.name for table in made.tables] == list(APART.tables)
    assert engine.written.index("churn") > engine.written.index("generations")
    told = [(step.what, step.done) for step in steps]
    assert told[:3] == [("the history", 0), ("generations", 1), ("transactional_commits", 1)]
    assert told[-2:] == [("quarantine", 4), ("done", 5)]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {*APART.tables, "views.sql"}


def test_job_fails_when_a_table_write_fails_and_succeeds_in_the_next_run(
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"
    source = GivenSource([committed(0, "a", 10)])
    broken = Waiting(tmp_path / "scratch")
    broken.fails = "generations"

    with pytest.raises(PipelineError, match="the disk is full"):
        run_job(broken, APART, source, Store(str(out)))

    assert "churn" not in broken.written
    there = {path.name for path in out.iterdir()}
    assert ".apart.running" in there
    assert {"generations", "churn"}.isdisjoint(there), "none is half-written"
    whole = run_job(Waiting(tmp_path / "scratch"), APART, source, Store(str(out)))
    assert [table.name for table in whole.tables] == list(APART.tables)
    assert {path.name for path in out.iterdir()} == {*APART.tables, "views.sql"}
