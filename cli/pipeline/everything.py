"""`muster pipeline all`: makes every table and the report from a history or an archive."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer

from cli import output
from cli.errors import USAGE, CommandError
from cli.pipeline.adding import Added, GrowthReport, growing, line
from cli.pipeline.engine import Conf, EngineName, Master, Means, Verbose, means_of
from cli.pipeline.extra import LIGHT, needs, sentences
from cli.pipeline.jobs import JOBS, end, run_job_command, run_named, show
from cli.pipeline.options import takes
from cli.pipeline.source import check_out
from pipeline.run.options import Given, options_of

if TYPE_CHECKING:
    from pipeline.run.job_options import JobOptions
    from pipeline.run.jobs import Summary

NAME = "all"


@takes(options_of(NAME))
def everything(
    given: Given,
    incremental: Annotated[
        bool,
        typer.Option(
            "--incremental",
            help="First add new records to an archive in --out, then make the tables from it.",
        ),
    ] = False,
    engine: EngineName = None,
    master: Master = None,
    conf: Conf = None,
    verbose: Verbose = False,
) -> None:
    """Make every table and the report. The command's help does not show this text; it shows the
    entry of JOBS."""
    means = means_of(engine, master, conf, verbose)
    if not incremental:
        run_job_command(NAME, given, means)
        return
    if given["overwrite"]:
        raise CommandError(
            "--incremental keeps the archive, and always replaces the tables: leave out"
            " --overwrite",
            USAGE,
        )
    if given["catalog"]:
        raise CommandError(
            "--incremental and --catalog can't be combined: --incremental keeps an archive in the"
            " folder --out. To fill a catalog from an archive, use --source ARCHIVE --catalog",
            USAGE,
        )
    needs(*LIGHT)
    with sentences():
        from pipeline.run.job_options import job_options

        wanted = job_options(given)
    check_out(wanted.out)
    came, summary = _add_and_run(wanted, means)
    if wanted.json:
        output.show_json({**asdict(summary), "archive": asdict(came)})
    else:
        output.say(str(came))
        show(summary, wanted)
    end(summary, wanted, came.damaged)


everything.__doc__ = JOBS[NAME]


def _add_and_run(wanted: JobOptions, means: Means) -> tuple[Added, Summary]:
    """Appends to the archive, and then makes the tables. The archive is locked until the tables are
    made."""
    from pipeline.run.collect import collect

    came = Added(wanted.out)
    with growing(wanted, "the archive and each table are intact") as (feed, news, archive):
        before = archive.manifest
        with line() as shown:
            collected = collect(news, archive, wanted.options.with_topics)
            GrowthReport(came, shown).looked(collected)
        came.take(before, archive.manifest)
        options = replace(wanted.options, overwrite=True, source=wanted.source)
        of_archive = replace(wanted, source=wanted.out, options=options)
        try:
            summary = run_named(NAME, of_archive, means)
        except CommandError as error:
            kept = f"; the new records of {wanted.source} are already in the archive {wanted.out}"
            raise CommandError(str(error), error.exit_code, kept) from error
        return came, replace(summary, moved_bytes=summary.moved_bytes + feed.moved_bytes)
