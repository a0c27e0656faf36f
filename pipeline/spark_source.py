"""What a job needs of the place where a history is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pyspark.sql import DataFrame

from pipeline.sources.segments import SharedTask


class Source(Protocol):
    """Where a history is read."""

    def events(self) -> DataFrame:
        """EVENTS."""

    def chained(self) -> DataFrame | None:
        """The same history as CHAINED; None where that is not cheaper than a sort."""

    def tasks(self) -> Sequence[SharedTask] | None:
        """The same as tasks that read whole partitions in order; None where it is not in files."""

    def batches(self, topics: Sequence[str] | None = None) -> DataFrame | None:
        """BATCHES of these topics, of all ordinary ones without a name; None where none are kept.

        PipelineError for a topic that is not there.
        """


class ClusterSource(Source, Protocol):
    """The whole history of a cluster."""

    where: str
    cluster_id: str | None
    """None where it is not known."""
