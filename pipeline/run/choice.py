"""Chooses the engine, DuckDB or Spark, of a pipeline job if the user did not choose one."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Mapping
from typing import Final

from pipeline.errors import WrongUse

DUCKDB: Final = "duckdb"
SPARK: Final = "spark"
LIGHT_RECORDS: Final = 20_000_000
"""The maximum number of records in a history for which DuckDB is the default."""
POOL_RECORDS: Final = 300_000
"""The minimum number of records for which several reader processes are faster than one."""
_PROCESSES_MAX = 8
_OF_SPARK = re.compile(r"(catalog|hdfs|s3a|abfss?|wasbs?|viewfs|gs)://")


def choose(
    engine: str | None,
    master: str | None,
    settings: Mapping[str, str],
    places: tuple[str, ...],
    records: int | None,
) -> str:
    """Returns DUCKDB or SPARK. Raises WrongUse if the options contradict each other.

    ``places`` are the source and the store. Spark is required if only Spark can access a place, or
    if ``master`` or ``settings`` are given. If Spark is installed, it is the default for more than
    LIGHT_RECORDS ``records``.
    """
    of_spark = {
        "--master": master is not None,
        "--conf": bool(settings),
        **{place: bool(_OF_SPARK.match(place)) for place in places},
    }
    wants = next((name for name, there in of_spark.items() if there), None)
    if engine not in (None, DUCKDB, SPARK):
        raise WrongUse(f"--engine {engine} is unknown: choose {DUCKDB} or {SPARK}")
    if engine == DUCKDB and wants is not None:
        raise WrongUse(f"--engine {DUCKDB} and {wants} can't be combined: {wants} needs Spark")
    if engine is not None:
        return engine
    if wants is not None:
        return SPARK
    many = records is not None and records > LIGHT_RECORDS
    return SPARK if many and importlib.util.find_spec("pyspark") else DUCKDB


def processes_for(records: int | None) -> int:
    """Returns the number of processes in which a DuckDB job reads ``records`` history records."""
    if records is not None and records < POOL_RECORDS:
        return 1
    return min(len(os.sched_getaffinity(0)), _PROCESSES_MAX)
