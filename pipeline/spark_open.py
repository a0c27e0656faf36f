"""Where the history is read from, whatever it is: a broker, folders of segments, a store."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from pipeline import connector
from pipeline.contract import BATCHES, EVENTS, conform
from pipeline.errors import PipelineError
from pipeline.sources.broker import (
    Address,
    addresses_of,
    bootstrap_of,
    end_offsets,
    look_at,
)
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

    `HOST:PORT` (several with commas) or `kafka://HOST:PORT`: a broker. Else the folder of a `Store`
    that has events, else folders of segments: a broker's data folders (several with commas), a
    partition's folder, live or archived.
    """
    addresses = addresses_of(where)
    if addresses is not None:
        return BrokerSource(spark, where, addresses)
    if "," not in where and Store(spark, where).has(EVENTS_TABLE):
        return StoreSource(spark, where)
    return FolderSource(spark, where)


class BrokerSource:
    """The topics of a running cluster, as they ended when it was opened."""

    def __init__(self, spark: SparkSession, where: str, addresses: Sequence[Address]) -> None:
        self.where = where
        self.bootstrap = bootstrap_of(addresses)
        self._spark = spark
        self._view = look_at(addresses)
        self.cluster_id = self._view.cluster_id
        if OFFSETS_TOPIC not in self._view.leaders:
            raise PipelineError(f"{where} has no {OFFSETS_TOPIC}: no group has committed there yet")
        self._ends = end_offsets(self._view, [OFFSETS_TOPIC])
        self.log_partitions = sorted(self._ends[OFFSETS_TOPIC])
        """The partitions of the offsets topic."""

    def events(self) -> DataFrame:
        """Every record of the offsets topic that was there at the opening."""
        return connector.events_of(connector.read_topics(self._spark, self.bootstrap, self._ends))

    def chained(self) -> None:
        """Spark sorts."""

    def tasks(self) -> None:
        """Spark reads."""

    def batches(self, topics: Sequence[str] | None = None) -> DataFrame:
        """A row for each minute of each partition."""
        wanted = connector.ordinary(self._view.leaders) if topics is None else list(topics)
        for topic in wanted:
            if topic not in self._view.leaders:
                raise PipelineError(f"{self.where} has no topic {topic}")
        ends = end_offsets(self._view, wanted)
        if not any(end for found in ends.values() for end in found.values()):
            return self._spark.createDataFrame([], BATCHES)
        return connector.batches_of(connector.read_topics(self._spark, self.bootstrap, ends))


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
        wanted = connector.ordinary(there) if topics is None else list(topics)
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
