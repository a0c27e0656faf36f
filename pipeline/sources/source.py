"""The interface of a source. A source has a history in parts that any engine can read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pipeline.engines.engine import Part


@dataclass(frozen=True)
class TimesAsked:
    """The topics and offsets whose timestamps a job needs.

    A source that reads files ignores the offsets: it returns all stretches of ``topics``. A source
    that reads from brokers requests each timestamp. It returns one per minute of the window, and
    the timestamps of the records at ``offsets``. The latter are exact, unless the requests would
    transfer too many bytes (see ``moved_bytes``).
    """

    topics: Collection[str]
    as_of_ms: int
    since_ms: int | None = None
    """The start of the window, which ends at ``as_of_ms``; None if no start was requested."""
    offsets: Mapping[tuple[str, int], Sequence[int]] = field(default_factory=dict)
    """The offsets that groups had committed at the start and at the end of the window, by topic and
    partition."""
    moved_bytes: int = 0
    """The number of bytes that were transferred over the network to read the history. The requests
    for record times may transfer at most as many bytes in addition."""


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
    of `event_parts` and `event_files` is not None. Exactly one of `stretch_parts` and
    `stretch_files` is not None too, if the topics in which groups committed are known. If they are
    not known, both are None.
    """

    where: str
    """The name of the source, as the user wrote it."""
    cluster_id: str | None

    def event_parts(self, partitions: Collection[int] | None) -> Sequence[Part] | None:
        """Returns the EVENTS of ``partitions`` of `__consumer_offsets`, as parts that tasks can
        read separately. If ``partitions`` is None, returns the EVENTS of all partitions. Returns
        None if the events are in Parquet files, which `event_files` returns. Raises PipelineError
        if a partition does not exist."""

    def event_files(self) -> Sequence[str] | None:
        """Returns paths of the Parquet files of EVENTS: files, or folders with one subfolder for
        each value of a column. Returns None if the source has no such files."""

    def stretch_parts(self, asked: TimesAsked) -> Sequence[Part] | None:
        """Returns the STRETCHES of the requested topics as parts that tasks can read separately. A
        topic that no longer exists has no rows."""

    def stretch_files(self) -> Sequence[str] | None:
        """Returns the Parquet files of STRETCHES."""

    def topics(self) -> Collection[str] | None:
        """Returns the topics of which the source has stretches, without Kafka's internal topics.
        Returns None if the source stores its stretches in files."""

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
        """Returns the number of bytes that the source itself has moved over the network; 0 for
        files. The bytes of the parts that an engine reads are not included."""
