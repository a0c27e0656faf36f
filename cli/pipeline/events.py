"""`muster pipeline events`: the history as a table, once or as it grows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from cli import clock, output
from cli.errors import INTERRUPTED, USAGE, CommandError
from cli.options import TIMEOUT_S, Json, Timeout, seconds
from cli.pipeline.jobs import (
    GroupOption,
    Out,
    Overwrite,
    Partitions,
    Since,
    Until,
    command_of,
)
from cli.pipeline.session import LOCAL, Conf, Master, Verbose, settings_of, spark_session
from cli.pipeline.source import SourceOption, check_out, check_source, is_address

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_once = command_of("events")


def events(
    source: SourceOption = "",
    out: Out = "",
    group: GroupOption = None,
    since: Since = None,
    until: Until = None,
    partitions: Partitions = None,
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
    overwrite: Overwrite = False,
    master: Master = LOCAL,
    conf: Conf = None,
    verbose: Verbose = False,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """The history itself, a row for each record; --follow adds to it as a broker writes."""
    if not follow:
        if until_now:
            raise CommandError("--until-now goes with --follow", USAGE)
        _once(
            source=source,
            out=out,
            group=group,
            since=since,
            until=until,
            partitions=partitions,
            no_topics=True,
            overwrite=overwrite,
            master=master,
            conf=conf,
            verbose=verbose,
            timeout=timeout,
            json=json,
        )
        return
    if any((group, since, until, partitions, overwrite)):
        raise CommandError(
            "--follow reads the whole history: leave out --group, --since, --until,"
            " --partitions and --overwrite",
            USAGE,
        )
    check_source(source, timeout)
    check_out(out)
    settings = settings_of(conf)
    with spark_session(master, settings, connector=is_address(source), verbose=verbose) as spark:
        followed = _follow(spark, source, out, until_now, every)
    _show(followed, json)


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
