"""What the Spark engine keeps, and how."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from pipeline.engines.spark import SparkEngine

pytestmark = pytest.mark.pipeline


def test_kept_rows_are_planned_without_what_made_them_when_spark_is_here(
    spark: SparkSession,
) -> None:
    engine = SparkEngine(spark, 100)
    engine.define("kept", "SELECT id * 2 AS n FROM range(3)", keep=True)

    rows = spark.sql("SELECT sum(n) AS n FROM kept")

    plan = rows._jdf.queryExecution().analyzed().toString()
    assert "Range" not in plan
    assert [row.n for row in rows.collect()] == [6]
    engine.close()
