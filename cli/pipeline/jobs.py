"""`muster pipeline commits`, `rates`, `lag` and so on: a job over a history, and what it made.

Names and summaries stand here too, so that the help needs no Spark; a test holds them against the
pipeline's own list.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from cli import output
from cli.errors import USAGE, CommandError
from cli.names import parse_partitions
from cli.options import TIMEOUT_S, Json, Timeout
from cli.pipeline.session import LOCAL, Bars, Conf, Master, Verbose, settings_of, spark_session
from cli.pipeline.source import SourceOption, check_out, check_source, is_address, moment
from cli.times import duration_ms, instant

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipeline.jobs import Options, Step, Summary
    from pipeline.selection import Selection

JOBS = {
    "events": "The history itself, a row for each record.",
    "commits": "Each commit with the one before it.",
    "rewinds": "Who moved backwards, when and how far.",
    "rates": "Commits and progress by group, topic and minute.",
    "generations": "Each generation of each group, and what changed.",
    "churn": "Rebalances by group, and the members who cause most.",
    "lag": "How far behind by minute, and who will never catch up.",
    "retention": "What will expire, what is dead, what compaction would save.",
    "all": "Every table, and the report.",
}
"""Name of a job -> what it makes."""

Out = Annotated[str, typer.Option("--out", metavar="FOLDER", help="Where the tables are written.")]
GroupOption = Annotated[
    list[str] | None,
    typer.Option(
        "--group", "-g", metavar="GROUP", help="Only this group; * stands for anything; repeatable."
    ),
]
TopicOption = Annotated[
    list[str] | None,
    typer.Option(
        "--topic", "-t", metavar="TOPIC", help="Read the times of this topic's records; repeatable."
    ),
]
NoTopics = Annotated[bool, typer.Option("--no-topics", help="Read no topics: no lag in seconds.")]
Since = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="TIME", help="Only records since then (UTC unless it has a zone)."
    ),
]
Until = Annotated[
    str | None,
    typer.Option("--until", metavar="TIME", help="Only records before (UTC unless it has a zone)."),
]
Partitions = Annotated[
    str | None,
    typer.Option("--partitions", metavar="0-1,5", help="Only these of __consumer_offsets."),
]
Retention = Annotated[
    str,
    typer.Option("--offsets-retention", metavar="TIME", help="The cluster's: 7d, 12h."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace tables that exist.")]


class Wanted(NamedTuple):
    """What a job command was asked for."""

    source: str
    out: str
    selection: Selection
    options: Options
    master: str
    settings: dict[str, str]
    verbose: bool


def command_of(name: str) -> Callable[..., None]:
    """The command of a job."""

    def command(
        source: SourceOption = "",
        out: Out = "",
        group: GroupOption = None,
        since: Since = None,
        until: Until = None,
        partitions: Partitions = None,
        topic: TopicOption = None,
        no_topics: NoTopics = False,
        offsets_retention: Retention = "7d",
        overwrite: Overwrite = False,
        master: Master = LOCAL,
        conf: Conf = None,
        verbose: Verbose = False,
        timeout: Timeout = TIMEOUT_S,
        json: Json = False,
    ) -> None:
        check_source(source, timeout)
        check_out(out)
        from pipeline.jobs import Options
        from pipeline.selection import Selection

        if topic and no_topics:
            raise CommandError("--topic and --no-topics are opposites: leave one out", USAGE)
        selection = Selection(
            group or None, moment(since, "--since"), moment(until, "--until"), numbers(partitions)
        )
        options = Options(
            overwrite=overwrite,
            topics=topic or None,
            with_batches=not no_topics,
            source=source,
            offsets_retention=timedelta(
                milliseconds=duration_ms(offsets_retention, "--offsets-retention")
            ),
        )
        wanted = Wanted(source, out, selection, options, master, settings_of(conf), verbose)
        show(run_named(name, wanted), json, _span_of(selection))

    command.__doc__ = JOBS[name]
    return command


def numbers(text: str | None) -> list[int] | None:
    """Partitions as ``0-1,5``."""
    if text is None:
        return None
    try:
        return parse_partitions(f"partitions:{text}")[1]
    except CommandError:
        raise CommandError(f"--partitions {text}: write it as 0-1,5", USAGE) from None


def run_named(name: str, wanted: Wanted) -> Summary:
    """Run a job from its source into its folder, with bars."""
    connector = is_address(wanted.source)
    with (
        spark_session(
            wanted.master,
            wanted.settings,
            connector=connector,
            verbose=wanted.verbose,
            source=wanted.source,
        ) as spark,
        Bars(spark) as bars,
    ):

        def progress(step: Step) -> None:
            bars.step(step.what, step.done, step.total)

        return run_in(spark, name, wanted, progress)


def run_in(
    spark: SparkSession, name: str, wanted: Wanted, progress: Callable[[Step], None]
) -> Summary:
    """Run a job in a session that is there."""
    from pipeline.catalog import JOBS
    from pipeline.jobs import run_job
    from pipeline.selection import SelectedSource
    from pipeline.spark_open import open_source
    from pipeline.store import Store

    job, store = JOBS[name], Store(spark, wanted.out)
    source = open_source(spark, wanted.source)
    store.belong_to(source.cluster_id)
    part = SelectedSource(source, wanted.selection)
    return run_job(spark, job, part, store, wanted.options, progress)


def _span_of(selection: Selection) -> str:
    """The span of time that was asked for, as it was understood."""
    ends = (("from", selection.since), ("until", selection.until))
    return "".join(
        f" {word} {instant(round(at.timestamp() * 1000), to_the_ms=True)}"
        for word, at in ends
        if at is not None
    )


def show(summary: Summary, json: bool, span: str = "") -> None:
    """Show what a job made: tables with rows and figures, and what could not be read."""
    if summary.damaged:
        output.warn(
            f"{output.counted(summary.damaged, 'part')} of the history could not be read;"
            " the table quarantine has them"
        )
    if summary.unknown:
        output.warn(f"kept {output.counted(summary.unknown, 'record')} of unknown kinds as events")
    if json:
        output.show_json(asdict(summary))
        return
    rows: list[output.Row] = [
        {
            "table": table.name,
            "rows": table.rows,
            "what": ", ".join(f"{figure.label} {figure.text}" for figure in table.figures) or None,
            "where": table.path,
        }
        for table in summary.tables
    ]
    title = f"{summary.job}: read {output.counted(summary.events, 'record')} of the history{span}"
    output.show_table(rows, ["table", "rows", "what", "where"], "No tables", title)
    if summary.report:
        output.say(f"The report is {summary.report}")
