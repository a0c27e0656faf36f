"""Opens a Spark session for the jobs: on this machine, on a cluster, or with Spark Connect.

Spark's executors receive the sources of `protocol`, `offsets` and `pipeline` as one archive of pure
Python.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Final
from urllib.parse import urlsplit

import pyspark
from pyspark.sql import SparkSession

from pipeline import java
from pipeline.errors import Unreachable
from pipeline.package import make_archive
from pipeline.sources.segments import KafkaSegments
from pipeline.sources.spark_history import MusterHistory

APPLICATION: Final = "muster pipeline"
LOCAL: Final = "local[*]"
CONNECT: Final = "sc://"
"""The URL scheme of a Spark Connect server."""
CONNECT_PORT: Final = 15002
CONNECT_WITHIN_S: Final = 30.0
DRIVER_MEMORY: Final = "2g"
FILES_AT_ONCE: Final = 8
"""The maximum number of days whose files one task writes at the same time. If there are more days,
Spark sorts the rows by day first."""
BRIEF_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java options for short work. They turn off Java's second compiler, which does not pay off here;
this saves a third of the CPU time."""
SHUFFLE_PARTITIONS_LOCAL: Final = 4
"""The number of shuffle partitions on a single machine, where more partitions only cost time. Spark
itself merges small partitions (adaptive execution)."""
_ANYWHERE: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # eight bytes per timestamp instead of the twelve that only Spark understands
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # rows arrive ordered by day: no sort before a table is laid out by day
    "spark.sql.maxConcurrentOutputFileWriters": str(FILES_AT_ONCE),
}
"""Settings that can be changed in a running session, even by clients of a Spark Connect server."""


def open_session(
    master: str | None = LOCAL,
    *,
    brief: bool = False,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Starts a session, or joins a running one. All times are in UTC.

    Without a ``master``, spark-submit decides the master and the settings that depend on it. An
    address that begins with `sc://` is a Spark Connect server, which needs no Java on this machine.
    ``brief`` says that there is little work: Java on this machine then starts with BRIEF_JAVA.
    ``settings`` are Spark settings and override all others.

    Raises PipelineError if no Java for Spark is found, and Unreachable if no Spark Connect server
    answers.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    is_server = master is not None and master.startswith(CONNECT)
    if master is not None and is_server:
        _check_server(master)
    builder = SparkSession.builder if is_server else SparkSession.builder.appName(APPLICATION)
    if master is not None:
        builder = builder.remote(master) if is_server else builder.master(master)
    given = {**_ANYWHERE, **({} if is_server else _settings(master, brief)), **(settings or {})}
    for name, value in given.items():
        builder = builder.config(name, value)
    has_java = master is None or is_server or SparkSession.getActiveSession() is not None
    with nullcontext() if has_java else java.used(java.find_java(pyspark.__version__)):
        session = builder.getOrCreate()
    session.addArtifacts(str(make_archive()), pyfile=True)
    for source in (KafkaSegments, MusterHistory):
        session.dataSource.register(source)
    return session


def _check_server(master: str) -> None:
    """Raises Unreachable if no server listens. Without this check, Spark's client would retry for
    minutes without a message."""
    address = urlsplit(master)
    host, port = address.hostname or "", address.port or CONNECT_PORT
    try:
        socket.create_connection((host, port), CONNECT_WITHIN_S).close()
    except OSError as error:
        raise Unreachable(
            f"can't connect to Spark Connect at {host}:{port}: {error.strerror or error}"
        ) from None


def _settings(master: str | None, brief: bool) -> dict[str, str]:
    """Returns the settings of a Spark session whose JVM this process starts."""
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
