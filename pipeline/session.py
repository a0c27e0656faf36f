"""A Spark session as the jobs want it, on this machine or on a cluster.

Executors get the sources of `protocol`, `offsets` and `pipeline` as one archive of pure Python.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Final

import pyspark
from pyspark.sql import SparkSession

from pipeline import java
from pipeline.package import make_archive
from pipeline.sources.segments import KafkaSegments

APPLICATION: Final = "muster pipeline"
LOCAL: Final = "local[*]"
DRIVER_MEMORY: Final = "2g"
FILES_AT_ONCE: Final = 8
"""Days that one task writes at the same time; above it Spark sorts its rows by day."""
BRIEF_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For work that ends before Java's second compiler would pay: a third of the CPU less."""
SHUFFLE_PARTITIONS_LOCAL: Final = 4
"""On a laptop more of them only cost; Spark joins small ones by itself (adaptive execution)."""
_ANYWHERE: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # eight bytes of a number rather than twelve that only Spark understands
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # rows come by days as it is: no sort before a table is laid out by day
    "spark.sql.maxConcurrentOutputFileWriters": str(FILES_AT_ONCE),
}
"""What a session may be told at any time."""


def open_session(
    master: str | None = LOCAL,
    *,
    brief: bool = False,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start, or join, a session. PipelineError where there is no Java that Spark runs on.

    Without a ``master`` it is spark-submit's, and so is everything that depends on it.

    ``brief`` says that there is little to do, and has a session on this machine start Java so.
    ``settings`` are Spark's, and stand as they are. Times are UTC throughout.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(APPLICATION)
    if master is not None:
        builder = builder.master(master)
    given = {**_ANYWHERE, **_settings(master, brief), **(settings or {})}
    for name, value in given.items():
        builder = builder.config(name, value)
    has_java = master is None or SparkSession.getActiveSession() is not None
    with nullcontext() if has_java else java.used(java.find_java(pyspark.__version__)):
        session = builder.getOrCreate()
    session.sparkContext.addPyFile(str(make_archive()))
    session.dataSource.register(KafkaSegments)
    return session


def _settings(master: str | None, brief: bool) -> dict[str, str]:
    """Of a session whose Java this process starts."""
    made = {
        # executors look for modules in the archive before the folder that they are started in
        "spark.executorEnv.PYTHONSAFEPATH": "1",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    if master is not None:
        made["spark.driver.memory"] = DRIVER_MEMORY
    if master is not None and master.startswith("local"):
        made |= {
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS_LOCAL),
        }
        if brief:
            made["spark.driver.extraJavaOptions"] = BRIEF_JAVA
    return made
