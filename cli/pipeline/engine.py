"""Chooses and starts the engine of a pipeline command: DuckDB in this process, or a Spark
session."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from cli.pipeline.bars import Bars
from cli.pipeline.extra import LIGHT, needs, sentences
from cli.pipeline.session import LOCAL, settings_of, spark_session
from pipeline.run.choice import DUCKDB, choose, processes_for

if TYPE_CHECKING:
    from pipeline.engines.engine import Engine

DONE_SO_FAR = "finished tables are kept, and no table is half-written"
_BRIEF_RECORDS = 100_000
"""If a history has fewer records, Spark's Java runs without its second compiler (C2). In such a
short run, the compiler takes more time than it saves."""

EngineName = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="duckdb|spark",
        help="The engine that makes the tables; default: DuckDB, or Spark for very long histories.",
    ),
]
Master = Annotated[
    str | None,
    typer.Option(
        "--master", metavar="URL", help="Spark's master: spark://HOST:PORT; default: this machine."
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="A Spark setting; repeatable."),
]
Verbose = Annotated[bool, typer.Option("--verbose", help="Show Spark's own output.")]


class Means(NamedTuple):
    """The engine that the user requests, and its settings."""

    engine: str | None
    master: str | None
    settings: Mapping[str, str]
    verbose: bool


NO_MEANS = Means(None, None, {}, False)
"""The default engine options, for commands without options for the engine."""


def means_of(
    engine: str | None, master: str | None, conf: Sequence[str] | None, verbose: bool
) -> Means:
    """Returns the parsed engine options. Raises CommandError for an invalid Spark setting."""
    return Means(engine, master, settings_of(conf), verbose)


@contextmanager
def running(means: Means, records: int | None, *places: str) -> Iterator[tuple[Engine, Bars]]:
    """Yields an engine for about ``records`` records, and progress bars, until the block ends.
    ``places`` are the sources and outputs. Errors in the block become CommandErrors."""
    with sentences():
        chosen = choose(means.engine, means.master, means.settings, places, records)
    if chosen == DUCKDB:
        needs(*LIGHT)
        from pipeline.engines.duck import DuckEngine

        with (
            sentences(None, DONE_SO_FAR),
            tempfile.TemporaryDirectory(prefix="muster-pipeline-") as scratch,
            Bars(None) as bars,
        ):
            engine = DuckEngine(scratch, processes_for(records))
            try:
                yield engine, bars
            finally:
                engine.close()
        return
    brief = records is not None and records < _BRIEF_RECORDS
    master = means.master or LOCAL
    with spark_session(master, means.settings, brief=brief, verbose=means.verbose) as spark:
        from pipeline.engines.spark import SparkEngine

        with Bars(spark) as bars:
            yield SparkEngine(spark, records), bars
