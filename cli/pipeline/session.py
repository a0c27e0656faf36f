"""A Spark session for one command: quiet, with bars while it works, and ended with the command.

Spark and its Java write to the descriptors 1 and 2 that they were started with. Those are a file
while Java starts, so that the terminal has the output of the command alone; the file is named when
something fails, and goes otherwise. `--verbose` leaves Spark its terminal.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from cli import clock
from cli.errors import USAGE, CommandError
from cli.pipeline.extra import SPARK, needs, sentences

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_S = 0.2
STOPPED_WITHIN_S = 20.0
LOCAL = "local[*]"
DONE_SO_FAR = "tables that were done are there, and none is half-written"

Master = Annotated[
    str,
    typer.Option(
        "--master", metavar="URL", help="Where Spark runs: this machine, or spark://HOST:PORT."
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark's; repeatable."),
]
Verbose = Annotated[bool, typer.Option("--verbose", help="Let Spark write to the terminal.")]


def settings_of(conf: Sequence[str] | None) -> dict[str, str]:
    """Spark's settings from ``KEY=VALUE``."""
    found = {}
    for text in conf or ():
        name, equals, value = text.partition("=")
        if not (equals and name.startswith("spark.")):
            raise CommandError(f"--conf {text}: write it as spark.NAME=VALUE", USAGE)
        found[name] = value
    return found


@contextmanager
def spark_session(
    master: str,
    settings: Mapping[str, str],
    *,
    connector: bool,
    verbose: bool,
    source: str | None = None,
) -> Iterator[SparkSession]:
    """A session that ends with the block; a `CommandError` for whatever Spark or a job raises.

    ``source`` is what will be read, when that is known: Java starts in another way for little.

    A session that this process has already is joined, and stays.
    """
    needs(*SPARK)
    from pyspark.sql import SparkSession

    from pipeline.session import open_session
    from pipeline.sources.size import is_small

    joined = SparkSession.getActiveSession() is not None
    log = None if verbose or joined else _log_file()
    kept = False
    try:
        with sentences(log, DONE_SO_FAR), _logged(log):
            with _away(log):
                brief = source is not None and is_small(source)
                session = open_session(master, connector=connector, brief=brief, settings=settings)
            if not joined:
                # PySpark's own handler asks Java again in the middle of an answer
                signal.signal(signal.SIGINT, signal.default_int_handler)
            try:
                yield session
            finally:
                if not joined:
                    _stop(session)
    except CommandError as error:
        kept = str(log) in str(error)
        raise
    finally:
        if log is not None and not kept:
            log.unlink(missing_ok=True)


def _stop(session: SparkSession) -> None:
    """End the session and its Java, whose last output nobody needs.

    A thread of its own has a connection of its own: an interrupt leaves the main thread's in the
    middle of an answer. Java that does not end in time ends with this process.
    """
    from py4j.protocol import Py4JError

    def stop() -> None:
        with suppress(Py4JError, OSError, RuntimeError):  # Java may be gone already
            session.stop()

    ending = clock.start_thread(stop)
    with suppress(KeyboardInterrupt):
        ending.join(STOPPED_WITHIN_S)


def _log_file() -> Path:
    descriptor, name = tempfile.mkstemp(prefix="muster-pipeline-", suffix=".log")
    os.close(descriptor)
    return Path(name)


@contextmanager
def _logged(log: Path | None) -> Iterator[None]:
    """Have what Spark's Python side logs go to the file too."""
    if log is None:
        yield
        return
    handler = logging.FileHandler(log)
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()


@contextmanager
def _away(log: Path | None) -> Iterator[None]:
    """Have what is started in the block write to the file instead of the terminal."""
    if log is None:
        yield
        return
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for descriptor, before in zip((1, 2), kept, strict=True):
            os.dup2(before, descriptor)
            os.close(before)


class Bars:
    """How far a job is, on a terminal's standard error alone: its steps, and Spark's tasks.

    Spark's own counts are asked by a thread, `POLL_S` apart.
    """

    def __init__(self, session: SparkSession) -> None:
        self._tracker = session.sparkContext.statusTracker()
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
        if self._shown:
            self._tasks = self._bar.add_task("tasks", total=None)
            self._poller = clock.start_thread(self._poll)
        return self

    def step(self, what: str, done: int, total: int) -> None:
        """The job is at ``what``, with so many steps behind it."""
        if self._steps is None:
            self._steps = self._bar.add_task(what, total=total)
        self._bar.update(self._steps, description=what, completed=done, total=total)

    def _poll(self) -> None:
        assert self._tasks is not None
        while not self._ended.wait(POLL_S):
            try:
                stages = [self._tracker.getStageInfo(i) for i in self._tracker.getActiveStageIds()]
            except Exception:  # noqa: BLE001 - a session that ends has no counts any more
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
