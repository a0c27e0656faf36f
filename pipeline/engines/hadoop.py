"""Accesses files on any Hadoop file system: HDFS, object stores, or the default of a cluster."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from pipeline.engines.files import beside


class HadoopFiles:
    """The Hadoop file system on which a folder is. Implements `pipeline.engines.files.Files`."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        jvm: Any = spark._jvm
        self._io = jvm.org.apache.commons.io.IOUtils
        self._path = jvm.org.apache.hadoop.fs.Path
        context: Any = spark.sparkContext._jsc
        self._files = self._path(folder).getFileSystem(context.hadoopConfiguration())

    def exists(self, path: str) -> bool:
        return bool(self._files.exists(self._path(path)))

    def rename(self, path: str, to: str) -> None:
        if not self._files.rename(self._path(path), self._path(to)):
            raise OSError(f"can't rename {path} to {to}: check its permissions")

    def delete(self, path: str) -> None:
        self._files.delete(self._path(path), True)

    def read_text(self, path: str) -> str | None:
        if not self.exists(path):
            return None
        stream = self._files.open(self._path(path))
        try:
            return str(self._io.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write_text(self, path: str, text: str) -> None:
        partial = beside(path)
        stream = self._files.create(self._path(partial), True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        self.delete(path)  # Hadoop does not rename to a name that exists
        self.rename(partial, path)
