"""The main file for spark-submit: one job, its source and its store; `--help` lists the jobs.

    spark-submit --master spark://HOST:7077 --py-files muster.zip muster_submit.py \\
        commits --source /mnt/kafka --out hdfs:///history

`python -m pipeline.package FOLDER` writes muster.zip and muster_submit.py. A job has the same
options and exit codes as in `muster pipeline`. Executors need Python with numpy, pandas and
pyarrow; for compressed batches they also need lz4 and cramjam.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict

from client.security import PLAINTEXT
from pipeline.engines.spark import SparkEngine
from pipeline.errors import DAMAGE_FOUND, GROUPS_FAIL, PipelineError
from pipeline.run import failing
from pipeline.run.catalog import JOBS
from pipeline.run.job_options import JobOptions, job_options
from pipeline.run.jobs import Step, Summary, run_job
from pipeline.run.options import Option, options_of
from pipeline.run.output_location import store_of
from pipeline.session import open_session
from pipeline.sources.damage import said_of
from pipeline.sources.open import open_source


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one job on the cluster that spark-submit names. Returns the exit code."""
    given = vars(parser().parse_args(arguments))
    try:
        wanted = job_options(given)
        summary = _run(given["job"], wanted)
    except PipelineError as error:
        print(f"muster pipeline: {error}", file=sys.stderr)
        return error.exit_code
    _show(summary, wanted.json)
    if wanted.fail_on_damage and summary.damaged:
        return DAMAGE_FOUND
    return GROUPS_FAIL if summary.failing else 0


def _run(job: str, wanted: JobOptions) -> Summary:
    session = open_session(None)
    security = wanted.settings.security if wanted.settings else PLAINTEXT
    files = SparkEngine(session).files
    source = open_source(wanted.source, security, wanted.timeout_s, files)
    engine = SparkEngine(session, source.records_estimate())
    store = store_of(wanted.out, engine, wanted.format)
    summary = run_job(engine, JOBS[job], source, store, wanted.options, _tell)
    for sentence in said_of(source):
        print(sentence, file=sys.stderr)
    return summary


def _tell(step: Step) -> None:
    print(f"{step.done}/{step.total} {step.what}", file=sys.stderr, flush=True)


def _show(summary: Summary, as_json: bool) -> None:
    for sentence in failing.sentences(summary.failing):
        print(f"muster pipeline: {sentence}", file=sys.stderr)
    if as_json:
        print(json.dumps(asdict(summary), indent=2, ensure_ascii=False))
        return
    for table in summary.tables:
        print(f"{table.path}: {table.rows} rows")
    if summary.report:
        print(f"The report is in {summary.report}")
    if summary.textfile:
        print(f"The lag for Prometheus is in {summary.textfile}")
    print(
        f"{summary.events} records, {summary.damaged} damaged, {summary.unknown} unknown;"
        f" {summary.engine}"
    )


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line: a job, followed by the job's options."""
    made = argparse.ArgumentParser(
        prog="muster_submit.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    jobs = made.add_subparsers(dest="job", required=True, metavar="JOB")
    for job in JOBS.values():
        own = jobs.add_parser(job.name, help=job.summary, description=job.summary)
        for option in options_of(job.name):
            _add(own, option)
    return made


def _add(to: argparse.ArgumentParser, option: Option) -> None:
    names = [f"--{option.name}", *([f"-{option.short}"] if option.short else [])]
    about = option.help.replace("%", "%%")
    if option.metavar is None:
        to.add_argument(*names, action="store_true", help=about)
        return
    said = os.environ.get(option.variable) if option.variable else None
    to.add_argument(
        *names,
        action="append" if option.repeatable else "store",
        metavar=option.metavar,
        default=said or option.default,
        help=about,
    )


if __name__ == "__main__":
    sys.exit(main())
