"""The interface of a source: parts of a history that any engine can read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pipeline.engines.engine import Part


@dataclass(frozen=True)
class TimesAsked:
    """The topics and records whose times a run needs.

    A source that has all times returns all stretches of these topics. A source that must ask its
    brokers returns one time for each minute of the window, and the times of the records at these
    offsets as exactly as possible.
    """

    topics: Collection[str]
    as_of_ms: int
    since_ms: int | None = None
    """The start of the window that ends with ``as_of_ms``; None if no start was requested."""
    offsets: Mapping[tuple[str, int], Sequence[int]] = field(default_factory=dict)
    """The offsets that groups have at both ends of the window, by topic and partition."""
    moved_bytes: int = 0
    """The bytes that the read of the history moved over the wire; requests for times may move the
    same number of bytes."""


class OfFiles:
    """Methods that are the same for every source of files."""

    def hidden(self, topics: Collection[str]) -> Collection[str]:  # noqa: ARG002
        """Return nothing: files hide no topics."""
        return ()

    def moved_bytes(self) -> int:
        """Return 0: a source of files moves no bytes over the wire."""
        return 0


class Source(Protocol):
    """A history that can be read, independently of the engine; a run opens it once.

    The events are parts, or Parquet files if the history was written as Parquet: exactly one of
    `event_parts` and `event_files` is not None. The same is true of stretches, except that both are
    None if the topics' own records are unknown.
    """

    where: str
    """The name of the source, as given by the user."""
    cluster_id: str | None
    """The cluster id; None if unknown."""

    def event_parts(self, partitions: Collection[int] | None) -> Sequence[Part] | None:
        """Return EVENTS of these partitions of `__consumer_offsets`, or of all partitions for None.

        Raise PipelineError if a partition does not exist.
        """

    def event_files(self) -> Sequence[str] | None:
        """Return the Parquet files of EVENTS, or folders whose Parquet files are in subfolders by a
        column."""

    def stretch_parts(self, asked: TimesAsked) -> Sequence[Part] | None:
        """Return STRETCHES of the requested topics; a topic that no longer exists has no rows."""

    def stretch_files(self) -> Sequence[str] | None:
        """The Parquet files of STRETCHES."""

    def topics(self) -> Collection[str] | None:
        """The ordinary topics whose stretches are parts; None if stretches are files."""

    def hidden(self, topics: Collection[str]) -> Collection[str]:
        """Return the topics among ``topics`` that a broker hides from this client; the result is
        empty for files."""

    def records_estimate(self) -> int | None:
        """The approximate number of records of `__consumer_offsets`; None if unknown."""

    def end_ms(self) -> int | None:
        """The time in ms until which the history is complete; None means the last record's time.

        For a broker, this is the time at which the source was opened; for an archive, this is the
        time of the last read.
        """

    def moved_bytes(self) -> int:
        """The bytes that the source's own requests have moved over the wire; 0 for files.

        The engine counts the bytes that the read of parts moves.
        """
