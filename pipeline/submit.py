"""The main file for spark-submit: one job, its source and its store; `--help` lists the jobs.

    spark-submit --master spark://HOST:7077 --py-files muster.zip muster_submit.py \\
        commits --source /mnt/kafka --out hdfs:///history

`python -m pipeline.package FOLDER` writes both files. Executors need Python with numpy, pandas and
pyarrow, and lz4 and cramjam where batches are compressed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pipeline.catalog import JOBS
from pipeline.errors import PipelineError
from pipeline.jobs import Options, Step, run_job
from pipeline.session import open_session
from pipeline.sources.broker import addresses_of
from pipeline.spark_open import open_source
from pipeline.store import Store


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one job on the cluster that spark-submit names; the exit code."""
    options = _parser().parse_args(arguments)
    try:
        _run(options)
    except PipelineError as error:
        print(f"muster pipeline: {error}", file=sys.stderr)
        return 1
    return 0


def _run(options: argparse.Namespace) -> None:
    wire = addresses_of(options.source) is not None
    spark = open_session(None, connector=wire)
    store = Store(spark, options.out)
    source = open_source(spark, options.source)
    store.belong_to(source.cluster_id)
    topics = options.topics.split(",") if options.topics else None
    wanted = Options(overwrite=options.overwrite, topics=topics, source=options.source)
    summary = run_job(spark, JOBS[options.job], source, store, wanted, _show)
    for table in summary.tables:
        print(f"{table.path}: {table.rows} rows")
    print(f"{summary.events} records, {summary.damaged} damaged, {summary.unknown} unknown")


def _show(step: Step) -> None:
    print(f"{step.done}/{step.total} {step.what}", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="muster_submit.py", description=__doc__)
    parser.add_argument("job", choices=[*JOBS])
    parser.add_argument("--source", required=True, help="HOST:PORT, a folder, or a store")
    parser.add_argument("--out", required=True, help="the folder of the tables")
    parser.add_argument("--overwrite", action="store_true", help="replace tables that exist")
    parser.add_argument(
        "--topics", help="topics whose records' times are read, with commas; else all"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
