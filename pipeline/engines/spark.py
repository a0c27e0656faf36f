"""Spark: a history of any size, on this machine or on a cluster."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark import Accumulator, StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import coalesce
from pyspark.sql.pandas.types import from_arrow_schema

from pipeline.engines.dialect import Dialect, SparkDialect
from pipeline.engines.engine import Part, cast, moved_by
from pipeline.engines.hadoop import HadoopFiles
from pipeline.model.tables import FORMER_NAMES

_SELDOM_TWICE: Final = ("log_offset", "committed_offset", "previous_offset")
"""Columns that no dictionary makes smaller; to make one and give it up costs time."""


_JOBS: Final = "muster pipeline"


class SparkEngine:
    """A Spark session; `open_session` makes one."""

    at_once = 3

    def __init__(self, spark: SparkSession) -> None:
        self.dialect: Dialect = SparkDialect()
        self.spark = spark
        self._moved_bytes = spark.sparkContext.accumulator(0)
        self._kept: list[DataFrame] = []
        self._names: set[str] = set()
        spark.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")  # as DuckDB has them

    @property
    def name(self) -> str:
        """See Engine."""
        return f"Spark {self.spark.version}"

    @property
    def is_here(self) -> bool:
        """See Engine."""
        return (self.spark.sparkContext.master or "").startswith("local")

    @property
    def moved_bytes(self) -> int:
        """See Engine. Complete for relations that a query has read."""
        moved: int = self._moved_bytes.value
        return moved

    def begin(self, what: str) -> None:
        """On Spark's own page. A thread has a job group of its own."""
        self.spark.sparkContext.setJobGroup(_JOBS, what)

    def interrupt(self) -> None:
        """See Engine."""
        self.spark.sparkContext.cancelJobGroup(_JOBS)

    def read(self, name: str, parts: Sequence[Part], schema: pa.Schema) -> None:
        """See Engine. Each part is a task."""
        context = self.spark.sparkContext
        todo = context.parallelize([(pickle.dumps(part),) for part in parts], max(len(parts), 1))
        rows = self.spark.createDataFrame(todo, "part binary")
        read = partial(_read_parts, self._moved_bytes)
        self._define(name, rows.mapInArrow(read, from_arrow_schema(schema)), keep=True)

    def open(self, name: str, files: Sequence[str], schema: pa.Schema) -> None:
        """See Engine."""
        if not files:
            self.read(name, [], schema)
            return
        former = FORMER_NAMES.get(name, {})
        olds = [schema.field(new).with_name(old) for new, old in former.items()]
        reader = self.spark.read.schema(from_arrow_schema(pa.schema([*schema, *olds])))
        rows = reader.parquet(*map(_uri, files))
        for new, old in former.items():
            rows = rows.withColumn(new, coalesce(new, old))
        self._define(name, rows.select(*schema.names), keep=False)

    def define(self, name: str, sql: str, *, keep: bool) -> None:
        """See Engine."""
        self._define(name, self.spark.sql(sql), keep=keep)

    def write(self, sql: str, schema: pa.Schema, folder: str, by: str | None) -> None:
        """See Engine."""
        folder = _uri(folder)
        kinds = from_arrow_schema(schema)
        types = {field.name: field.dataType.simpleString() for field in kinds}
        rows = self.spark.sql(cast(sql, types))
        writer = rows.write
        for column in _SELDOM_TWICE:
            writer = writer.option(f"parquet.enable.dictionary#{column}", "false")
        if by is not None:
            writer = writer.partitionBy(by)
        writer.parquet(folder)
        if by is not None and self.spark.read.schema(kinds).parquet(folder).isEmpty():
            # of no rows laid out by a column there are no files, and nothing says the columns
            rows.drop(by).limit(0).coalesce(1).write.mode("overwrite").parquet(folder)

    def ask(self, sql: str) -> list[dict[str, Any]]:
        """See Engine."""
        found: list[dict[str, Any]] = self.spark.sql(sql).toArrow().to_pylist()
        return found

    def arrow(self, sql: str) -> Iterable[pa.RecordBatch]:
        """See Engine."""
        batches: Iterable[pa.RecordBatch] = self.spark.sql(sql).toArrow().to_batches()
        return batches

    def files(self, folder: str) -> HadoopFiles:
        """See Engine."""
        return HadoopFiles(self.spark, folder)

    def close(self) -> None:
        """See Engine. The session stays."""
        for name in self._names:
            self.spark.catalog.dropTempView(name)
        for rows in self._kept:
            rows.unpersist()
        self._names, self._kept = set(), []

    def _define(self, name: str, rows: DataFrame, *, keep: bool) -> None:
        if keep:
            rows = rows.persist(StorageLevel.MEMORY_AND_DISK)
            self._kept.append(rows)
            rows.count()  # all of it is computed now, not by the first of those that read it
        rows.createOrReplaceTempView(name)
        self._names.add(name)


def _uri(path: str) -> str:
    """A plain path is of this machine, whatever the cluster's default file system is."""
    return f"file://{path}" if path.startswith("/") else path


def _read_parts(
    moved_bytes: Accumulator[int], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for pickled in batch.column(0).to_pylist():
            part: Part = pickle.loads(pickled)
            yield from part.read()
            moved_bytes.add(moved_by(part))
