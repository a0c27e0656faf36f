"""`muster pipeline events`: the history as a table, once or as it grows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from cli import clock, output
from cli.errors import INTERRUPTED, USAGE, CommandError
from cli.options import seconds
from cli.pipeline.engine import Conf, EngineName, Master, Verbose, means_of
from cli.pipeline.jobs import run_job_command
from cli.pipeline.options import takes
from cli.pipeline.session import LOCAL, spark_session
from cli.pipeline.source import check_out, check_source, is_address
from pipeline.run.options import JOB_OPTIONS, Given

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@takes(JOB_OPTIONS)
def events(
    given: Given,
    follow: Annotated[
        bool, typer.Option("--follow", help="Follow the history as it grows; end with Ctrl-C.")
    ] = False,
    until_now: Annotated[
        bool,
        typer.Option("--until-now", help="With --follow: end when the history so far is written."),
    ] = False,
    every: Annotated[
        float, seconds("--every", least=0.1, help="With --follow: how long from batch to batch.")
    ] = 10.0,
    engine: EngineName = None,
    master: Master = None,
    conf: Conf = None,
    verbose: Verbose = False,
) -> None:
    """The history itself, a row for each record; --follow adds to it as a broker writes."""
    means = means_of(engine, master, conf, verbose)
    if not follow:
        if until_now:
            raise CommandError("--until-now goes with --follow", USAGE)
        run_job_command("events", given, means)
        return
    if any(given[name] for name in ("group", "since", "until", "partitions", "overwrite")):
        raise CommandError(
            "--follow reads the whole history: leave out --group, --since, --until,"
            " --partitions and --overwrite",
            USAGE,
        )
    source, out = given["source"] or "", given["out"] or ""
    check_source(source, 30.0)
    check_out(out)
    with spark_session(
        means.master or LOCAL, means.settings, connector=is_address(source), verbose=verbose
    ) as spark:
        followed = _follow(spark, source, out, until_now, every)
    _show(followed, given["json"])


class Followed(NamedTuple):
    """What following came to."""

    where: str
    rows: int
    interrupted: bool
    """By the user; else the stream ended."""


def _show(followed: Followed, json: bool) -> None:
    where, rows, interrupted = followed
    if json:
        output.show_json({"table": "events", "where": where, "rows": rows})
    else:
        output.say(f"{where} has {output.counted(rows, 'record')}")
    if interrupted:
        raise typer.Exit(INTERRUPTED)


def _follow(
    spark: SparkSession, source: str, out: str, until_now: bool, every_s: float
) -> Followed:
    """Follow until the stream or the user ends it."""
    from pipeline.store import Store
    from pipeline.stream import finish, follow

    store = Store(spark, out)
    interrupted = False
    query = follow(spark, source, store, available_now=until_now, trigger_s=every_s)
    # Java is asked by a thread: an interrupt would leave this one's connection in the middle of an
    # answer, and what it asks next would get that one.
    with clock.threads() as waiting:
        ended = waiting.submit(finish, query)
        try:
            if not until_now:
                output.warn(f"following {source} into {out}; end with Ctrl-C")
            ended.result()
        except KeyboardInterrupt:
            interrupted = True
            query.stop()
        except BaseException:
            query.stop()
            raise
    rows = store.read("events").count() if store.has("events") else 0
    return Followed(store.path("events"), rows, interrupted)
