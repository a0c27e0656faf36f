"""Tables in a folder, as Parquet: each is there whole or not at all.

A table is written beside its place, as `.NAME.partial`, and renamed when all of it is there; one
that is replaced steps aside as `.NAME.old` first. A job that is killed anywhere leaves the old
table or the new one, and its next run clears away what is left. Hadoop's file system does it, so
that the folder may be on this machine or wherever the cluster keeps its files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pipeline.errors import PipelineError

_SELDOM_TWICE = ("log_offset", "committed_offset", "previous_offset")
"""Columns that no dictionary makes smaller; to make one and give it up costs time."""
_MARK = "_muster.json"
"""Which cluster the tables are of; Spark passes over names that begin so."""


class Store:
    """The tables in one folder."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self.spark = spark
        self.folder = folder.rstrip("/") or "/"
        jvm: Any = spark._jvm
        self._path = jvm.org.apache.hadoop.fs.Path
        context: Any = spark.sparkContext._jsc
        self._files = self._path(self.folder).getFileSystem(context.hadoopConfiguration())

    @property
    def is_local(self) -> bool:
        """Whether the folder is in this machine's own file system."""
        return str(self._files.getUri().getScheme()) == "file"

    def path(self, name: str) -> str:
        """Where a table is."""
        return f"{self.folder}/{name}"

    def has(self, name: str) -> bool:
        """Whether a table is there; one that a killed run was replacing is put back, and counts."""
        self._settle(name)
        return bool(self._files.exists(self._path(self.path(name))))

    def cluster_id(self) -> str | None:
        """The cluster of these tables; None while it is not known."""
        if not self.has_file(_MARK):
            return None
        stream = self._files.open(self._path(self.path(_MARK)))
        jvm: Any = self.spark._jvm
        try:
            text = jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
        finally:
            stream.close()
        found: str | None = json.loads(text).get("cluster_id")
        return found

    def belong_to(self, cluster_id: str | None) -> None:
        """Note the cluster of these tables. PipelineError when they are another cluster's.

        A cluster that is not known (None) leaves no note and is not refused.
        """
        if cluster_id is None:
            return
        noted = self.cluster_id()
        if noted not in (None, cluster_id):
            raise PipelineError(
                f"{self.folder} has tables of cluster {noted}, but the source is cluster"
                f" {cluster_id}: choose another --out"
            )
        if noted is None:
            self.write_text(_MARK, json.dumps({"cluster_id": cluster_id}))

    def check_absent(self, names: Sequence[str], overwrite: bool) -> None:
        """PipelineError when one of these tables is there and is not to be replaced."""
        there = [name for name in names if self.has(name)]
        if there and not overwrite:
            raise PipelineError(
                f"{self.folder} already has {', '.join(there)}: choose another --out, or replace"
                " what is there with --overwrite"
            )

    def write(
        self, name: str, frame: DataFrame, partition_by: Sequence[str] = (), overwrite: bool = False
    ) -> None:
        """Write a table whole. PipelineError when it is there and ``overwrite`` is not set."""
        self.write_by(
            name,
            lambda folder: _write_parquet(frame, folder, partition_by),
            frame.schema,
            overwrite,
        )

    def write_by(
        self, name: str, into: Callable[[str], None], schema: StructType, overwrite: bool = False
    ) -> None:
        """`write` by a function that makes a folder of Parquet files; it is given the folder's URI.

        A function that makes no file leaves an empty table of ``schema``.
        """
        self.check_absent([name], overwrite)
        partial, old = (
            self._path(self._aside(name, "partial")),
            self._path(self._aside(name, "old")),
        )
        self._files.delete(partial, True)
        into(str(self._files.makeQualified(partial).toString()))
        if not any(self._is_of_table(found) for found in self._files.listStatus(partial)):
            # of no rows laid out by a column there are no files, and nothing says the columns
            nothing = self.spark.createDataFrame([], schema)
            nothing.write.mode("overwrite").parquet(self._aside(name, "partial"))
        place = self._path(self.path(name))
        if self._files.exists(place):
            self._rename(place, old)
        self._rename(partial, place)
        self._files.delete(old, True)

    @staticmethod
    def _is_of_table(found: Any) -> bool:
        return bool(found.isDirectory()) or str(found.getPath().getName()).endswith(".parquet")

    def has_part(self, name: str, part: str) -> bool:
        """Whether a table that grows has this part."""
        return self.has_file(f"{name}/{part}")

    def write_part(
        self,
        name: str,
        part: str,
        frame: DataFrame,
        partition_by: Sequence[str] = (),
        before: Callable[[DataFrame], None] | None = None,
    ) -> None:
        """Add a part, such as `batch=3`, whole or not at all; a frame without rows adds nothing.

        ``before`` is called with the part as it was written, before it appears in the table.
        """
        # Spark reads no folder whose own name begins with a dot; its parent's may.
        partial = f"{self._aside(name, 'partial')}/{part}"
        self._files.delete(self._path(partial), True)
        _write_parquet(frame, partial, partition_by)
        written = self.spark.read.schema(frame.schema).parquet(partial)
        if written.isEmpty():
            self._files.delete(self._path(partial), True)
            return
        if before is not None:
            before(written)
        self._files.mkdirs(self._path(self.path(name)))
        self._rename(self._path(partial), self._path(self.path(f"{name}/{part}")))
        self._files.delete(self._path(self._aside(name, "partial")), True)

    def read(self, name: str, schema: StructType | None = None) -> DataFrame:
        """A table; PipelineError when it is not there.

        A ``schema`` that is known saves Spark a job that reads it from the files.
        """
        if not self.has(name):
            raise PipelineError(
                f"{self.folder} has no table {name}: make it with `muster pipeline {name}"
                f" --source ... --out {self.folder}`"
            )
        reader = self.spark.read if schema is None else self.spark.read.schema(schema)
        return reader.parquet(self.path(name))

    def has_file(self, name: str) -> bool:
        """Whether there is a file of this name beside the tables."""
        return bool(self._files.exists(self._path(self.path(name))))

    def write_text(self, name: str, text: str) -> None:
        """Write a file beside the tables, whole or not at all; one that is there is replaced."""
        partial, place = self._path(self._aside(name, "partial")), self._path(self.path(name))
        stream = self._files.create(partial, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        self._files.delete(place, False)
        self._rename(partial, place)

    def delete(self, name: str) -> None:
        """Delete a file or a table; nothing happens when there is none."""
        self._files.delete(self._path(self.path(name)), True)

    def _aside(self, name: str, what: str) -> str:
        return f"{self.folder}/.{name}.{what}"

    def _settle(self, name: str) -> None:
        """Put back, or clear away, what a killed replacement left aside."""
        place, old = self._path(self.path(name)), self._path(self._aside(name, "old"))
        if self._files.exists(old):
            if self._files.exists(place):
                self._files.delete(old, True)
            else:
                self._rename(old, place)

    def _rename(self, source: Any, target: Any) -> None:
        if not self._files.rename(source, target):
            raise PipelineError(f"{source} could not be renamed to {target}: see its permissions")


def _write_parquet(frame: DataFrame, folder: str, partition_by: Sequence[str]) -> None:
    writer = frame.write.mode("error")
    for column in _SELDOM_TWICE:
        writer = writer.option(f"parquet.enable.dictionary#{column}", "false")
    if partition_by:
        writer = writer.partitionBy(*partition_by)
    writer.parquet(folder)
