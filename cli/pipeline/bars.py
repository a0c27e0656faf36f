"""Shows the progress of a running job."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from cli import clock

if TYPE_CHECKING:
    from pyspark import StatusTracker
    from pyspark.sql import SparkSession

POLL_S = 0.2


class Bars:
    """Progress bars for the steps of a job and for Spark's tasks, if standard error is a terminal.
    A thread reads Spark's counts every `POLL_S` seconds."""

    def __init__(self, session: SparkSession | None) -> None:
        self._tracker = None if session is None else tracker_of(session)
        console = Console(stderr=True)
        self._shown = console.is_terminal
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed}/{task.total}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not self._shown,
        )
        self._steps: TaskID | None = None
        self._tasks: TaskID | None = None
        self._ended = threading.Event()
        self._poller: threading.Thread | None = None

    def __enter__(self) -> Bars:
        self._bar.start()
        if self._shown and self._tracker is not None:
            self._tasks = self._bar.add_task("tasks", total=None)
            self._poller = clock.start_thread(self._poll)
        return self

    def step(self, what: str, done: int, total: int) -> None:
        """Shows that ``done`` of ``total`` steps are complete and the step ``what`` begins."""
        if self._steps is None:
            self._steps = self._bar.add_task(what, total=total)
        self._bar.update(self._steps, description=what, completed=done, total=total)

    def _poll(self) -> None:
        assert self._tasks is not None
        assert self._tracker is not None
        while not self._ended.wait(POLL_S):
            try:
                stages = [self._tracker.getStageInfo(i) for i in self._tracker.getActiveStageIds()]
            except Exception:  # noqa: BLE001 - the session has ended
                return
            known = [stage for stage in stages if stage is not None]
            if known:
                done = sum(stage.numCompletedTasks for stage in known)
                total = sum(stage.numTasks for stage in known)
                self._bar.update(self._tasks, completed=done, total=total)

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._poller is not None:
            clock.join(self._poller, 1)
        self._bar.stop()


def tracker_of(session: SparkSession) -> StatusTracker | None:
    """Returns the status tracker of a session; None if Spark runs in another process."""
    from pipeline.engines.spark import is_connected

    return None if is_connected(session) else session.sparkContext.statusTracker()
