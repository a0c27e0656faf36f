"""`muster pipeline events`: copies the history to an archive, to which later runs append."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from cli import output
from cli.errors import FOUND, INTERRUPTED, USAGE, CommandError, Interrupts
from cli.options import seconds
from cli.pipeline.adding import Added, Growing, GrowthReport, growing, line
from cli.pipeline.engine import Conf, EngineName, Master, Verbose, means_of
from cli.pipeline.extra import LIGHT, needs, sentences
from cli.pipeline.jobs import run_job_command
from cli.pipeline.options import takes
from cli.pipeline.source import check_out, is_address
from pipeline.run.options import JOB_OPTIONS, Given
from pipeline.sources.segment_files import is_local

if TYPE_CHECKING:
    from pipeline.run.job_options import JobOptions

_A_PART = (
    "group",
    "since",
    "until",
    "as_of",
    "partitions",
    "topic",
    "overwrite",
    "format",
    "catalog",
)
"""The options with which the command writes a table instead of an archive."""


@takes(JOB_OPTIONS)
def events(
    given: Given,
    follow: Annotated[
        bool, typer.Option("--follow", help="Add a broker's new records until Ctrl-C or SIGTERM.")
    ] = False,
    until_now: Annotated[
        bool,
        typer.Option("--until-now", help="With --follow: end when all existing records are added."),
    ] = False,
    every: Annotated[
        float, seconds("--every", least=0.1, help="With --follow: how often the source is read.")
    ] = 10.0,
    engine: EngineName = None,
    master: Master = None,
    conf: Conf = None,
    verbose: Verbose = False,
) -> None:
    """Write the history as an archive; another run, or --follow, adds new records.

    With a selection (--group, --until and so on), or with output to object storage, the command
    writes a table instead, which does not grow.
    """
    means = means_of(engine, master, conf, verbose)
    if until_now and not follow:
        raise CommandError("--until-now needs --follow", USAGE)
    parts = [f"--{name.replace('_', '-')}" for name in _A_PART if given[name]]
    parts += [name for name, value in (("--engine", engine), ("--master", master)) if value]
    if parts and follow:
        raise CommandError(
            f"--follow adds all records and uses no engine: leave out {', '.join(parts)}",
            USAGE,
        )
    remote = not is_local(given["out"] or "")
    if parts or (remote and not follow):
        run_job_command("events", given, means)
        return
    needs(*LIGHT)
    with sentences():
        from pipeline.run.job_options import job_options

        wanted = job_options(given)
    check_out(wanted.out)
    if follow and not until_now and not is_address(wanted.source):
        raise CommandError(
            f"{wanted.source} is not a broker: name a broker as HOST:PORT, or add the new records"
            " once with --until-now",
            USAGE,
        )
    _show(_added(wanted, every if follow and not until_now else None), wanted)


def _added(wanted: JobOptions, every_s: float | None) -> Added:
    """Appends new records to the archive once, or every ``every_s`` seconds until Ctrl-C or
    SIGTERM."""
    came = Added(wanted.out)
    with growing(wanted, "the archive is intact") as growth:
        before = growth.archive.manifest
        try:
            with line() as show:
                _add(wanted, growth, every_s, GrowthReport(came, show))
        except KeyboardInterrupt:
            Interrupts.received = False
            came.interrupted = True
        came.take(before, growth.archive.manifest)
    return came


def _add(wanted: JobOptions, growth: Growing, every_s: float | None, report: GrowthReport) -> None:
    from pipeline.run.collect import collect, follow

    feed, news, archive = growth
    with_topics = wanted.options.with_topics
    if every_s is None:
        report.looked(collect(news, archive, with_topics))
        return
    output.warn(f"following {wanted.source} into {wanted.out}; stop with Ctrl-C or SIGTERM")
    follow(feed, archive, report.looked, report.away, every_s, with_topics, news)


def _show(came: Added, wanted: JobOptions) -> None:
    if wanted.json:
        output.show_json(asdict(came))
    else:
        output.say(str(came))
    if came.interrupted:
        raise typer.Exit(INTERRUPTED)
    if wanted.fail_on_damage and came.damaged:
        raise typer.Exit(FOUND)
