"""A table in a store is there whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.errors import PipelineError
from pipeline.store import Store

pytestmark = pytest.mark.pipeline


def test_a_table_is_written_read_and_not_replaced_unasked(
    spark: SparkSession, tmp_path: Path
) -> None:
    store = Store(spark, str(tmp_path))
    store.write("numbers", spark.range(3))
    with pytest.raises(PipelineError, match="already has numbers"):
        store.write("numbers", spark.range(5))
    assert store.read("numbers").count() == 3
    store.write("numbers", spark.range(5), overwrite=True)
    assert store.read("numbers").count() == 5
    assert [path.name for path in tmp_path.iterdir()] == ["numbers"]


def test_a_job_killed_while_it_replaced_a_table_leaves_the_old_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    store = Store(spark, str(tmp_path))
    store.write("numbers", spark.range(3))
    (tmp_path / "numbers").rename(tmp_path / ".numbers.old")
    (tmp_path / ".numbers.partial").mkdir()
    assert store.has("numbers")
    assert store.read("numbers").count() == 3


def test_a_table_that_is_not_there_names_the_command_that_makes_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(PipelineError, match="muster pipeline rates"):
        Store(spark, str(tmp_path)).read("rates")
