"""The interface of a source: a history whose parts any engine can read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pipeline.engines.engine import Part


@dataclass(frozen=True)
class TimesAsked:
    """The topics and offsets of which a run needs the times.

    A source in files contains all times, and returns all stretches of ``topics``. A source that
    must request times from brokers returns one time for each minute of the window. Such a source
    also returns the times of the records at ``offsets``, as exactly as ``moved_bytes`` allows.
    """

    topics: Collection[str]
    as_of_ms: int
    since_ms: int | None = None
    """The start of the window, which ends at ``as_of_ms``; None if no start was requested."""
    offsets: Mapping[tuple[str, int], Sequence[int]] = field(default_factory=dict)
    """The offsets that groups had committed at the start and at the end of the window, by topic and
    partition."""
    moved_bytes: int = 0
    """The number of bytes that were transferred over the network to read the history. Requests for
    record times may transfer up to the same number of bytes again."""


class OfFiles:
    """Methods that are the same for every source that reads files."""

    def hidden(self, topics: Collection[str]) -> Collection[str]:  # noqa: ARG002
        """Returns an empty result, because files hide no topics."""
        return ()

    def moved_bytes(self) -> int:
        """Returns 0, because reading files uses no broker connection."""
        return 0


class Source(Protocol):
    """A history that any engine can read. A run opens it once.

    Events come from parts, or from Parquet files if the history was written as Parquet: exactly one
    of `event_parts` and `event_files` is not None. The same applies to `stretch_parts` and
    `stretch_files`, except that both return None if nothing is known about the topics in which
    groups committed.
    """

    where: str
    """The name of the source, as the user wrote it."""
    cluster_id: str | None

    def event_parts(self, partitions: Collection[int] | None) -> Sequence[Part] | None:
        """Returns parts with the EVENTS of these partitions of `__consumer_offsets`, or of all
        partitions if ``partitions`` is None. Returns None if the events are in Parquet files, which
        `event_files` returns. Raises PipelineError if a partition does not exist."""

    def event_files(self) -> Sequence[str] | None:
        """Returns the Parquet files of EVENTS, or folders that contain these files in one subfolder
        for each value of a column. Returns None if the source has no such files."""

    def stretch_parts(self, asked: TimesAsked) -> Sequence[Part] | None:
        """Returns the STRETCHES of the requested topics as parts that tasks can read separately. A
        topic that no longer exists has no rows."""

    def stretch_files(self) -> Sequence[str] | None:
        """Returns the Parquet files of STRETCHES."""

    def topics(self) -> Collection[str] | None:
        """Returns the topics that have stretches, without Kafka's internal topics; None if
        stretches are files."""

    def hidden(self, topics: Collection[str]) -> Collection[str]:
        """Returns those of ``topics`` that a broker hides from this client. For files the result is
        empty."""

    def records_estimate(self) -> int | None:
        """Returns the approximate number of records in `__consumer_offsets`; None if it is
        unknown."""

    def end_ms(self) -> int | None:
        """Returns the time in ms until which the history is complete; None means the time of the
        last record.

        For a broker this is the time at which the source was opened. For an archive it is the time
        of the last read into the archive.
        """

    def moved_bytes(self) -> int:
        """Returns the number of bytes that the source's own requests moved over the network; 0 for
        files. The engine counts the bytes of the parts that it reads."""
