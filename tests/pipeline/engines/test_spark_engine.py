"""Tests of relations whose rows the Spark engine keeps in memory."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from pipeline.engines.spark import SparkEngine

pytestmark = pytest.mark.pipeline


def test_local_spark_runs_the_query_of_a_relation_only_once_when_keep_is_true(
    spark: SparkSession,
) -> None:
    engine = SparkEngine(spark, 100)
    engine.define("kept", "SELECT id * 2 AS n FROM range(3)", keep=True)

    rows = spark.sql("SELECT sum(n) AS n FROM kept")

    plan = rows._jdf.queryExecution().analyzed().toString()
    assert "Range" not in plan
    assert [row.n for row in rows.collect()] == [6]
    engine.close()
