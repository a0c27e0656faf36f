"""Where the history is read from, whatever it is: folders of segments, a store."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from pipeline.contract import BATCHES, EVENTS, conform
from pipeline.errors import PipelineError
from pipeline.sources.segment_files import (
    OFFSETS_TOPIC,
    cluster_id_of,
    partition_folders,
)
from pipeline.sources.segments import FORMAT, SharedTask, chain_tasks, plan
from pipeline.spark_source import ClusterSource
from pipeline.store import Store

EVENTS_TABLE = "events"
BATCHES_TABLE = "batches"


def open_source(spark: SparkSession, where: str) -> ClusterSource:
    """The source that ``where`` names; PipelineError when it is not one.

    The folder of a `Store` that has events, else folders of segments: a broker's data folders
    (several with commas), a partition's folder, live or archived.
    """
    if "," not in where and Store(spark, where).has(EVENTS_TABLE):
        return StoreSource(spark, where)
    return FolderSource(spark, where)


class FolderSource:
    """Folders of segments."""

    def __init__(self, spark: SparkSession, where: str) -> None:
        self.where = where
        self._spark = spark
        self.cluster_id = cluster_id_of(where)
        plan({"path": where, "topic": OFFSETS_TOPIC})

    def events(self) -> DataFrame:
        """Every record of the offsets topic's segments, decoded where they are read."""
        return self._read("offsets", OFFSETS_TOPIC)

    def chained(self) -> DataFrame:
        """Each partition in one go, so that a commit's previous one is known without a sort."""
        return self._read("chained", OFFSETS_TOPIC)

    def tasks(self) -> Sequence[SharedTask]:
        """Those of `chained`."""
        return chain_tasks({"path": self.where, "topic": OFFSETS_TOPIC})

    def batches(self, topics: Sequence[str] | None = None) -> DataFrame | None:
        """A row for each batch; None where no ordinary topic is there, as in an archive."""
        there = {topic for topic, _ in partition_folders(self.where)}
        wanted = (
            sorted(topic for topic in there if not topic.startswith("__"))
            if topics is None
            else list(topics)
        )
        for topic in wanted:
            if topic not in there:
                raise PipelineError(f"{self.where} has no topic {topic}")
        if not wanted:
            return None
        return self._read("stretches", ",".join(wanted)).withColumnRenamed("last_at", "max_at")

    def _read(self, what: str, topic: str) -> DataFrame:
        reader = self._spark.read.format(FORMAT).option("as", what).option("topic", topic)
        return reader.load(self.where)


class StoreSource:
    """The tables `events`, and `batches` when it was written, of a store."""

    def __init__(self, spark: SparkSession, where: str) -> None:
        self.where = where
        self._store = Store(spark, where)
        self.cluster_id = self._store.cluster_id()

    def events(self) -> DataFrame:
        """What was written; damaged rows are in `quarantine`."""
        return conform(self._store.read(EVENTS_TABLE), EVENTS)

    def chained(self) -> None:
        """Spark sorts."""

    def tasks(self) -> None:
        """Spark reads."""

    def batches(self, topics: Sequence[str] | None = None) -> DataFrame | None:
        """What was written; None when none were."""
        if not self._store.has(BATCHES_TABLE):
            return None
        frame = conform(self._store.read(BATCHES_TABLE), BATCHES)
        return frame if topics is None else frame.filter(frame.topic.isin(*topics))
