"""The interface of a source: pieces of a history that any engine can read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pipeline.engines.engine import Part


@dataclass(frozen=True)
class TimesAsked:
    """The topics and records whose times a run needs.

    A source with all times at hand returns all stretches of these topics. A source that must ask
    its brokers returns the window by the minute, and the records at these offsets as exactly as it
    can.
    """

    topics: Collection[str]
    as_of_ms: int
    since_ms: int | None = None
    """The start of the window that ends with ``as_of_ms``; None if none was requested."""
    offsets: Mapping[tuple[str, int], Sequence[int]] = field(default_factory=dict)
    """The offsets that groups hold at the ends of the window, by topic and partition."""
    moved_bytes: int = 0
    """The bytes that reading the history moved over the wire: asking for times may move as many."""


class OfFiles:
    """The methods that are the same for every source of files."""

    def hidden(self, topics: Collection[str]) -> Collection[str]:  # noqa: ARG002
        """Return nothing: files hide no topics."""
        return ()

    def moved_bytes(self) -> int:
        """Return 0: files move nothing over the wire."""
        return 0


class Source(Protocol):
    """A place from which a history is read; opened once for a run, independent of the engine.

    Events are parts, or Parquet files if the history was written as such: exactly one of
    `event_parts` and `event_files` is not None. The same holds for stretches, but both are None if
    the topics' own records are unknown.
    """

    where: str
    """The name of the source, as given by the user."""
    cluster_id: str | None
    """None if unknown."""

    def event_parts(self, partitions: Collection[int] | None) -> Sequence[Part] | None:
        """EVENTS of these partitions of `__consumer_offsets`; of all for None.

        PipelineError for a partition that does not exist.
        """

    def event_files(self) -> Sequence[str] | None:
        """The Parquet files of EVENTS, or folders of them laid out by a column."""

    def stretch_parts(self, asked: TimesAsked) -> Sequence[Part] | None:
        """STRETCHES of the requested topics; a topic that no longer exists has none."""

    def stretch_files(self) -> Sequence[str] | None:
        """The Parquet files of STRETCHES."""

    def topics(self) -> Collection[str] | None:
        """The ordinary topics whose stretches are parts; None if stretches are files."""

    def hidden(self, topics: Collection[str]) -> Collection[str]:
        """The topics among these that a broker hides from this client; none for files."""

    def records_estimate(self) -> int | None:
        """Approximate number of records of `__consumer_offsets`; None if unknown."""

    def end_ms(self) -> int | None:
        """The time until which the history is complete: a broker's opening, an archive's last read.
        None means the last record's time.
        """

    def moved_bytes(self) -> int:
        """Bytes that its own requests moved over the wire until now; 0 for files.

        The engine counts those moved by reading parts.
        """
