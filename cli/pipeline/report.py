"""`muster pipeline report`: the page of plots, of tables that are there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli import clock, output
from cli.errors import CommandError
from cli.options import Json
from cli.pipeline.session import LOCAL, Bars, Conf, Master, Verbose, settings_of, spark_session
from cli.pipeline.source import check_out

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def report(
    out: Annotated[
        str, typer.Option("--out", metavar="FOLDER", help="The folder that `all` wrote.")
    ] = "",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a report that exists.")
    ] = False,
    master: Master = LOCAL,
    conf: Conf = None,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """Write the report again from the tables in a folder; it opens without a network."""
    check_out(out)
    settings = settings_of(conf)
    with spark_session(master, settings, connector=False, verbose=verbose, source=out) as spark:
        from pipeline.catalog import JOBS, TABLES
        from pipeline.contract import conform
        from pipeline.jobs import REPORT, report_of
        from pipeline.report.head import Head
        from pipeline.store import Store

        store = Store(spark, out)
        if store.has_file(REPORT) and not overwrite:
            raise CommandError(f"{out} already has {REPORT}: replace it with --overwrite")

        def table(name: str) -> DataFrame:
            return conform(store.read(name), TABLES[name].schema)

        with Bars(spark) as bars:
            bars.step("the report", 0, 1)
            names = [name for name in JOBS["all"].tables if store.has(name)]
            head = Head(out, "not known", round(clock.now().timestamp() * 1000))
            store.write_text(REPORT, report_of(spark, table, names, head))
        where = store.path(REPORT)
    if json:
        output.show_json({"report": where})
    else:
        output.say(f"The report is {where}")
