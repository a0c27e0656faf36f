"""The engine Spark. It handles a history of any size, on this machine or on a cluster."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import coalesce
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from pipeline.engines.dialect import Dialect, SparkDialect
from pipeline.engines.engine import Part, cast, moved_by
from pipeline.engines.files import Files, parquet_files
from pipeline.errors import PipelineError
from pipeline.model.tables import FORMER_NAMES

_SELDOM_TWICE: Final = ("log_offset", "committed_offset", "previous_offset")
"""Columns whose values rarely repeat. A dictionary encoding of these columns would only cost time.
"""
SHORT_RECORDS: Final = 20_000
"""A history is short if its estimated number of records is below this number. For a short history,
Spark needs more time to plan a query than to read the records, even if compressed batches contain
ten times as many records as estimated."""
FILE: Final = "file://"
_MOVED: Final = pa.field("_moved_bytes", pa.int64())
"""The column in which a task returns the number of bytes that it read over the network. This number
is in one extra row after the task's other rows."""


class SparkEngine:
    """A Spark session, in this process or by Spark Connect; `open_session` creates the session.

    The engine uses only DataFrames, because a client of Spark Connect has no RDDs and no Java.
    """

    at_once = 3

    def __init__(self, spark: SparkSession, records: int | None = None) -> None:
        """``records`` is the approximate number of records of the history; None means unknown."""
        self.dialect: Dialect = SparkDialect()
        self.spark = spark
        self.moved_bytes = 0
        self._kept: list[DataFrame] = []
        self._names: set[str] = set()
        self._is_one_machine = str(spark.conf.get("spark.master", "")).startswith("local")
        self._is_short = records is not None and records < SHORT_RECORDS
        spark.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")  # as in DuckDB

    @property
    def name(self) -> str:
        return f"Spark {self.spark.version}"

    @property
    def is_here(self) -> bool:
        return self._is_one_machine and not is_connected(self.spark)

    def begin(self, what: str) -> None:
        """Implements `Engine.begin`: Spark's web page shows ``what`` as the tag of the jobs that
        this thread starts from now on."""
        self.spark.clearTags()
        self.spark.addTag(what)

    def interrupt(self) -> None:
        """Implements `Engine.interrupt` for all jobs of the session, because Spark's `interruptTag`
        ends only jobs with tags that the calling thread has set."""
        self.spark.interruptAll()

    def read(self, name: str, parts: Sequence[Part], schema: pa.Schema) -> None:
        """Implements `Engine.read`. Each part is read by a Spark task of its own."""
        if not parts:
            kinds = self.types(schema).items()
            nothing = ", ".join(f'CAST(NULL AS {kind}) AS "{column}"' for column, kind in kinds)
            self.define(name, f"SELECT {nothing} WHERE false", keep=False)
            return
        count = len(parts)
        marked = pa.schema([*(field.with_nullable(True) for field in schema), _MOVED])
        read = partial(_read_parts, [pickle.dumps(part) for part in parts], marked)
        rows = self._keep(
            self.spark.range(0, count, 1, count).mapInArrow(read, from_arrow_schema(marked)),
            now=False,
        )
        # read everything now, not by the first query that needs it
        [moved] = rows.groupBy().sum(_MOVED.name).collect()
        if moved[0]:
            self.moved_bytes += moved[0]
            rows = rows.where(f"{_MOVED.name} IS NULL")
        self._name(name, rows.drop(_MOVED.name))

    def open(self, name: str, files: Sequence[str], schema: pa.Schema) -> None:
        if not files:
            self.read(name, [], schema)
            return
        former = FORMER_NAMES.get(name, {})
        olds = [schema.field(new).with_name(old) for new, old in former.items()]
        reader = self.spark.read.schema(from_arrow_schema(pa.schema([*schema, *olds])))
        rows = reader.parquet(*map(_uri, files))
        for new, old in former.items():
            rows = rows.withColumn(new, coalesce(new, old))
        self._name(name, rows.select(*schema.names))

    def define(self, name: str, sql: str, *, keep: bool) -> None:
        rows = self.spark.sql(sql)
        self._name(name, self._keep(rows, now=True) if keep else rows)

    def write(self, sql: str, schema: pa.Schema, folder: str, by: str | None) -> None:
        folder = _uri(folder)
        kinds = from_arrow_schema(schema)
        rows = self.spark.sql(cast(sql, self.types(schema)))
        writer = rows.write
        for column in _SELDOM_TWICE:
            writer = writer.option(f"parquet.enable.dictionary#{column}", "false")
        if by is not None:
            writer = writer.partitionBy(by)
        writer.parquet(folder)
        if by is not None and self._has_none(folder, kinds):
            # with no rows and a layout by column no files are written, and the columns would be
            # lost
            rows.drop(by).limit(0).coalesce(1).write.mode("overwrite").parquet(folder)

    def _has_none(self, folder: str, kinds: StructType) -> bool:
        """Returns True if a folder of Parquet files has no rows. The files may be in subfolders."""
        if self.is_here and folder.startswith(FILE):
            return not any(parquet_files(folder.removeprefix(FILE)))
        return self.spark.read.schema(kinds).parquet(folder).isEmpty()

    def run(self, sql: str) -> list[dict[str, Any]]:
        """Execute a SQL statement of Spark, and return its rows."""
        return [row.asDict() for row in self.spark.sql(sql).collect()]

    def types(self, schema: pa.Schema) -> dict[str, str]:
        return {each.name: each.dataType.simpleString() for each in from_arrow_schema(schema)}

    def ask(self, sql: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.spark.sql(sql).toArrow().to_pylist()
        return found

    def arrow(self, sql: str) -> Iterable[pa.RecordBatch]:
        batches: Iterable[pa.RecordBatch] = self.spark.sql(sql).toArrow().to_batches()
        return batches

    def files(self, folder: str) -> Files:
        if is_connected(self.spark):
            raise PipelineError(
                f"Spark Connect can't reach files in {folder}: write to a catalog (--catalog), or"
                " to a folder that this machine shares with the Spark server"
            )
        from pipeline.engines.hadoop import HadoopFiles

        return HadoopFiles(self.spark, folder)

    def close(self) -> None:
        """Implements `Engine.close`. The Spark session stays open."""
        for name in self._names:
            self.spark.catalog.dropTempView(name)
        for rows in self._kept:
            rows.unpersist()
        self._names, self._kept = set(), []

    def _keep(self, rows: DataFrame, *, now: bool) -> DataFrame:
        """Makes Spark compute rows only once and store them. If ``now`` is True, computes them now;
        otherwise Spark computes them for the first query that reads them. Returns the stored rows.

        On one machine, the rows of a short history are stored without their query plan. With the
        plan, Spark would plan the history again for each query that reads the rows. In all other
        cases the plan is kept, since Spark uses it to compute the rows of a lost worker again, and
        to know the size of the rows.
        """
        if self._is_short and self._is_one_machine:
            return rows.localCheckpoint(eager=now)
        kept = rows.persist(StorageLevel.MEMORY_AND_DISK)
        self._kept.append(kept)
        if now:
            kept.count()
        return kept

    def _name(self, name: str, rows: DataFrame) -> None:
        rows.createOrReplaceTempView(name)
        self._names.add(name)


def is_connected(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _uri(path: str) -> str:
    """Return the URI of a path. A path without a scheme is on this machine, whatever a cluster's
    default file system is."""
    return FILE + path if path.startswith("/") else path


def _read_parts(
    parts: Sequence[bytes], schema: pa.Schema, numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of the parts whose indices are in ``numbers``. If a part was read over the
    network, then yields one more row, with the number of transferred bytes."""
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            part: Part = pickle.loads(parts[number])
            for rows in part.read():
                columns = [*rows.columns, pa.nulls(len(rows), _MOVED.type)]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)
            if moved := moved_by(part):
                yield pa.RecordBatch.from_pylist([{_MOVED.name: moved}], schema=schema)
