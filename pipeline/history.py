"""The history of one run: read when it is first needed, and what it was seen to hold."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from pipeline.catalog import TABLES, Inputs, Job
from pipeline.contract import DAMAGED, UNKNOWN, of_kind
from pipeline.direct import DirectTable, direct_table
from pipeline.spark_source import Source


class History:
    """What a job reads of a source.

    It is kept in Spark's memory when the job reads it more than once. When it is read once, what
    it holds is counted on the way.
    """

    def __init__(
        self, source: Source, job: Job, topics: Sequence[str] | None, with_batches: bool
    ) -> None:
        """``topics``: those whose batches are read, None for all; none without ``with_batches``."""
        self._source = source
        self._job = job
        self._topics = None if topics is None else list(topics)
        self._with_batches = with_batches
        written_first = "events" in job.tables
        self._kept = not written_first and sum(TABLES[name].reads for name in job.tables) > 1
        self._seen = None if written_first or self._kept else Observation()
        self._direct: DirectTable | None = None

    @cached_property
    def events(self) -> DataFrame:
        """EVENTS."""
        if self._kept:
            return self._raw.persist(StorageLevel.MEMORY_AND_DISK)
        if self._seen is None or self.chained is not None:
            return self._raw
        return self._raw.observe(self._seen, *_counts())

    @cached_property
    def chained(self) -> DataFrame | None:
        """The same as CHAINED, when each table of the job can be made of it and it is cheaper."""
        if self._seen is None or not self._job.of_commits:
            return None
        chained = self._source.chained()
        return None if chained is None else chained.observe(self._seen, *_counts())

    @cached_property
    def batches(self) -> DataFrame | None:
        """The batches that the job reads, kept too when it reads them more than once."""
        if not self._job.reads_batches or not self._with_batches:
            return None
        batches = self._source.batches(self._topics)
        again = "batches" not in self._job.tables and self._job.reads_batches > 1
        if batches is None or not again:
            return batches
        return batches.persist(StorageLevel.MEMORY_AND_DISK)

    def direct(self, spark: SparkSession) -> DirectTable | None:
        """How the one table of the job is written where the history is read, when it can be."""
        form = self._job.arrow
        tasks = None if form is None else self._source.tasks()
        if form is not None and tasks is not None:
            self._direct = direct_table(spark, form, tasks, self.batches)
        return self._direct

    def counts(self, inputs: Inputs, rows: int) -> tuple[int, int, int]:
        """How many events, damaged ones and unknown ones there are, ``rows`` being what was made.

        What was seen on the way is known only when something was: of a history that Spark knows to
        be empty nothing is seen, ever.
        """
        if self._direct:
            return self._direct.seen
        if self._seen and rows:
            row = self._seen.get
        else:
            events = self._raw if self._seen else inputs.events
            row = events.agg(*_counts()).collect()[0].asDict()
        return row["events"], row["damaged"], row["unknown"]

    def release(self) -> None:
        """Forget what was kept."""
        for name in ("events", "batches"):
            frame: DataFrame | None = vars(self).get(name)
            if frame is not None and frame.is_cached:
                frame.unpersist()

    @cached_property
    def _raw(self) -> DataFrame:
        return self._source.events()


def _counts() -> list[Column]:
    return [
        F.count("*").alias("events"),
        F.count_if(of_kind(DAMAGED)).alias("damaged"),
        F.count_if(of_kind(UNKNOWN)).alias("unknown"),
    ]
