"""`muster pipeline report`: the page of plots, of tables that are there."""

from __future__ import annotations

from typing import Annotated

import typer

from cli import clock, output
from cli.errors import CommandError
from cli.options import Json
from cli.pipeline.engine import NO_MEANS, running
from cli.pipeline.source import check_out


def report(
    out: Annotated[
        str, typer.Option("--out", metavar="FOLDER", help="The folder that `all` wrote.")
    ] = "",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a report that exists.")
    ] = False,
    json: Json = False,
) -> None:
    """Write the report again from the tables in a folder; it opens without a network."""
    check_out(out)
    with running(NO_MEANS, 0, out) as (engine, bars):
        from pipeline.report.head import Head
        from pipeline.report.page import make_report
        from pipeline.run.catalog import JOBS, TABLES
        from pipeline.run.jobs import REPORT
        from pipeline.run.place import store_of

        store = store_of(out, engine)
        if store.has_file(REPORT) and not overwrite:
            raise CommandError(f"{out} already has {REPORT}: replace it with --overwrite")
        bars.step("the report", 0, 1)
        names = [name for name in JOBS["all"].tables if store.has(name)]
        for name in names:
            engine.open(name, [store.path(name)], TABLES[name].schema)
        head = Head(out, "not known", clock.now_ms(), cluster_id=store.cluster_id())
        store.write_text(REPORT, make_report(engine, names, head))
        where = store.path(REPORT)
    if json:
        output.show_json({"report": where})
    else:
        output.say(f"The report is {where}")
