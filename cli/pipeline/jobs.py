"""`muster pipeline commits`, `rates`, `lag` and so on: runs a job over a history and shows its
result. JOBS repeats the pipeline's list of jobs, so that the help does not need to import the
pipeline. A test compares the two lists."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from cli import output
from cli.client.security import security_of
from cli.errors import FOUND, GROUPS_FAIL
from cli.pipeline.engine import Conf, EngineName, Master, Means, Verbose, means_of, running
from cli.pipeline.extra import LIGHT, needs, sentences
from cli.pipeline.options import takes
from cli.pipeline.source import check_out, saying
from cli.pipeline.views import say_views
from cli.times import instant
from pipeline.run.options import Given, options_of
from pipeline.sources.segment_files import OFFSETS_TOPIC

if TYPE_CHECKING:
    from pipeline.run.job_options import JobOptions
    from pipeline.run.jobs import Step, Summary, Unreadable

JOBS = {
    "events": "The history as a table, a row for each record.",
    "commits": "Each commit, and the group's previous commit for the partition.",
    "rewinds": "Commits that moved an offset back, with the member that owned the partition.",
    "rates": "Commits and progress by group, topic and minute.",
    "generations": "The generations of each group: members, times and changes.",
    "assignments": "Epochs, states, partitions and tasks of members, and which of them moved.",
    "churn": "How often groups rebalance, and which members cause it.",
    "lag": "Lag over time, and partitions that will never catch up.",
    "retention": "Offsets that expire, dead groups, and the bytes that compaction saves.",
    "all": "Every table, and the report.",
}
"""The summary of each job, by name."""
_NAMED = 5


def command_of(name: str) -> Callable[..., None]:
    """Returns the command function that runs a job."""

    def command(
        given: Given,
        engine: EngineName = None,
        master: Master = None,
        conf: Conf = None,
        verbose: Verbose = False,
    ) -> None:
        run_job_command(name, given, means_of(engine, master, conf, verbose))

    command.__doc__ = JOBS[name]
    return takes(options_of(name))(command)


def run_job_command(name: str, given: Given, means: Means) -> None:
    """Runs a job, shows its result, and exits with the exit code that `end` chooses."""
    needs(*LIGHT)
    with sentences():
        from pipeline.run.job_options import job_options

        wanted = job_options(given)
    check_out(wanted.out)
    summary = run_named(name, wanted, means)
    show(summary, wanted)
    end(summary, wanted, summary.damaged)


def end(summary: Summary, wanted: JobOptions, damaged: int) -> None:
    """Exits with the exit code of --fail-on-damage or --fail-on if their condition is true. Damage
    takes precedence."""
    if wanted.fail_on_damage and damaged:
        raise typer.Exit(FOUND)
    if summary.failing:
        raise typer.Exit(GROUPS_FAIL)


def run_named(name: str, wanted: JobOptions, means: Means) -> Summary:
    """Runs a job from its source to its output folder, with progress bars."""
    from pipeline.run.catalog import JOBS
    from pipeline.run.jobs import run_job
    from pipeline.run.output_location import store_of
    from pipeline.sources.open import is_remote, open_source

    source = records = None
    with ExitStack() as after:
        with sentences():
            security = security_of(wanted.settings)
            if not is_remote(wanted.source):
                source = open_source(wanted.source, security, wanted.timeout_s)
                after.enter_context(saying(source))
                records = source.records_estimate()
        engine, bars = after.enter_context(running(means, records, wanted.source, wanted.out))
        if source is None:
            source = open_source(wanted.source, security, wanted.timeout_s, engine.files)

        def progress(step: Step) -> None:
            bars.step(step.what, step.done, step.total)

        store = store_of(wanted.out, engine, wanted.format)
        return run_job(engine, JOBS[name], source, store, wanted.options, progress)


def show(summary: Summary, wanted: JobOptions) -> None:
    """Shows the result of a job: the tables, and warnings about unreadable parts of the history."""
    from pipeline.run import failing
    from pipeline.run.figures import words_of

    if summary.damaged:
        output.warn(
            f"{output.counted(summary.damaged, 'part')} of the history could not be read: see table"
            " quarantine"
        )
    if summary.torn:
        output.warn(
            f"{output.counted(summary.torn, 'log')} ended in the middle of a batch: see table"
            " quarantine"
        )
    for line in dict.fromkeys(f"  {_place(each)}: {each.reason}" for each in summary.unreadable):
        output.warn(line)
    if len(summary.unreadable) < summary.damaged + summary.torn:
        output.warn("  ...")
    if summary.hidden:
        topics = ", ".join(summary.hidden[:_NAMED])
        more = " ..." if len(summary.hidden) > _NAMED else ""
        output.warn(
            f"{wanted.source} does not let the client describe the topics {topics}{more}, so their"
            " lag is unknown; grant the client the ACL Describe on these topics"
        )
    for sentence in failing.sentences(summary.failing):
        output.warn(sentence)
    if summary.unknown:
        records = output.counted(summary.unknown, "record")
        output.warn(f"records of unknown kinds: {records}; table events has a row for each record")
    if wanted.json:
        output.show_json(asdict(summary))
        return
    rows: list[output.Row] = [
        {
            "table": table.name,
            "rows": table.rows,
            "what": words_of(table.figures) or None,
            "where": table.path,
        }
        for table in summary.tables
    ]
    columns = ["table", "rows", "what", "where"]
    output.show_table(rows, columns, "No tables", _title(summary, wanted))
    if summary.views:
        say_views(summary.views)
    if summary.report:
        output.say(f"The report is {summary.report}")
    if summary.textfile:
        output.say(f"The lag for Prometheus is in {summary.textfile}")


def _place(each: Unreadable) -> str:
    """Returns the location of an unreadable part of the history as text."""
    if each.file is None:
        offset = "" if each.log_offset is None else f", offset {each.log_offset}"
        return f"{OFFSETS_TOPIC}:{each.log_partition}{offset}"
    return each.file if each.position is None else f"{each.file} at byte {each.position}"


def _title(summary: Summary, wanted: JobOptions) -> str:
    """Returns the title of the result: the number of records read, the time span, and the
    engine."""
    ends = (
        ("from", wanted.options.selection.span.since_ms),
        ("until", wanted.options.selection.span.until_ms),
        ("as of", summary.as_of_ms),
    )
    span = ",".join(f" {word} {instant(ms, to_the_ms=True)}" for word, ms in ends if ms is not None)
    moved = f", {summary.moved_bytes:,} bytes fetched" if summary.moved_bytes else ""
    what = output.counted(summary.events, "record")
    return f"{summary.job}: read {what} of the history{span}; {summary.engine}{moved}"
