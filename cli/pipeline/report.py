"""`muster pipeline report`: writes the report of existing tables again."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

import typer

from cli import output
from cli.options import Json
from cli.pipeline.engine import NO_MEANS, running
from cli.pipeline.extra import LIGHT, needs, sentences
from cli.pipeline.options import takes
from cli.pipeline.source import check_out
from pipeline.run.options import REPORT_OPTIONS, Given


@takes(REPORT_OPTIONS)
def report(
    given: Given,
    out: Annotated[
        str, typer.Option("--out", metavar="FOLDER", help="The folder that `all` wrote.")
    ] = "",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a report that exists.")
    ] = False,
    json: Json = False,
) -> None:
    """Write the report again from the tables in a folder. The report opens without a network."""
    check_out(out)
    needs(*LIGHT)
    with sentences():
        from pipeline.run.job_options import thresholds_of

        thresholds = thresholds_of(given)
    with running(NO_MEANS, 0, out) as (engine, bars):
        from pipeline.run.output_location import store_of
        from pipeline.run.report import write_report_again

        bars.step("the report", 0, 1)
        with closing(store_of(out, engine)) as store:
            where = write_report_again(engine, store, thresholds, overwrite)
    if json:
        output.show_json({"report": where})
    else:
        output.say(f"The report is {where}")
