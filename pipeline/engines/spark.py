"""Spark: a history of any size, on this machine or on a cluster."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from pipeline.engines.dialect import SparkDialect
from pipeline.engines.engine import Part, cast


class SparkEngine:
    """A Spark session; `open_session` makes one."""

    def __init__(self, spark: SparkSession) -> None:
        self.dialect = SparkDialect()
        self.spark = spark
        spark.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")  # as DuckDB has them

    @property
    def name(self) -> str:
        """See Engine."""
        return f"Spark {self.spark.version}"

    def read(self, name: str, parts: Sequence[Part], schema: pa.Schema) -> None:
        """See Engine. Each part is a task."""
        types = from_arrow_schema(schema)
        todo = self.spark.createDataFrame([(pickle.dumps(part),) for part in parts], "part binary")
        rows = todo.repartition(max(len(parts), 1)).mapInArrow(_read_parts, types)
        rows.persist(StorageLevel.MEMORY_AND_DISK).createOrReplaceTempView(name)

    def open(self, name: str, files: Sequence[str], schema: pa.Schema) -> None:
        """See Engine."""
        raise NotImplementedError

    def define(self, name: str, sql: str, *, keep: bool) -> None:
        """See Engine."""
        rows = self.spark.sql(sql)
        if keep:
            rows = rows.persist(StorageLevel.MEMORY_AND_DISK)
        rows.createOrReplaceTempView(name)

    def write(self, sql: str, schema: pa.Schema, folder: str, by: str | None) -> None:
        """See Engine."""
        types = {field.name: field.dataType.simpleString() for field in from_arrow_schema(schema)}
        writer = self.spark.sql(cast(sql, types)).write
        if by is not None:
            writer = writer.partitionBy(by)
        writer.parquet(folder)

    def ask(self, sql: str) -> list[dict[str, Any]]:
        """See Engine."""
        found: list[dict[str, Any]] = self.spark.sql(sql).toArrow().to_pylist()
        return found

    def arrow(self, sql: str) -> Iterable[pa.RecordBatch]:
        """See Engine."""
        batches: Iterable[pa.RecordBatch] = self.spark.sql(sql).toArrow().to_batches()
        return batches


def _read_parts(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for pickled in batch.column(0).to_pylist():
            yield from pickle.loads(pickled).read()
