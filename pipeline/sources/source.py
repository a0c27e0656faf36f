"""What a run needs of the place where a history is read: pieces that any engine can read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pipeline.engines.engine import Part


@dataclass(frozen=True)
class TimesAsked:
    """Of which records of topics a run needs to know when they were written.

    A source that has all of them at hand gives all of these topics; one that must ask gives the
    window by the minute, and the records at these offsets as exactly as it can.
    """

    topics: Collection[str]
    as_of_ms: int
    since_ms: int | None = None
    """Where the window begins that ends with ``as_of_ms``; None where none was asked."""
    offsets: Mapping[tuple[str, int], Sequence[int]] = field(default_factory=dict)
    """What groups hold at the ends of the window, by topic and partition."""
    moved_bytes: int = 0
    """What reading the history took over the wire: as much may be asked again."""


class OfFiles:
    """What every source of files answers alike."""

    def hidden(self, topics: Collection[str]) -> Collection[str]:  # noqa: ARG002
        """Files hide nothing."""
        return ()

    def moved_bytes(self) -> int:
        """Nothing comes over the wire."""
        return 0


class Source(Protocol):
    """Where a history is read; opened once for a run. Nothing of it depends on an engine.

    Events come as parts, or as Parquet files where the history was written as such: exactly one of
    `event_parts` and `event_files` gives something that is not None. Stretches likewise, but both
    are None where nothing is known of the topics' own records.
    """

    where: str
    """As it was given."""
    cluster_id: str | None
    """None where it is not known."""

    def event_parts(self, partitions: Collection[int] | None) -> Sequence[Part] | None:
        """EVENTS of these partitions of `__consumer_offsets`, of all for None.

        PipelineError for a partition that is not there.
        """

    def event_files(self) -> Sequence[str] | None:
        """The Parquet files of EVENTS, or folders of them laid out by a column."""

    def stretch_parts(self, asked: TimesAsked) -> Sequence[Part] | None:
        """STRETCHES of the topics asked; one that is not there any more has none."""

    def stretch_files(self) -> Sequence[str] | None:
        """The Parquet files of STRETCHES."""

    def topics(self) -> Collection[str] | None:
        """The ordinary topics of which it has stretches as parts; None where they are files."""

    def hidden(self, topics: Collection[str]) -> Collection[str]:
        """Those of these topics that a broker does not show this client; none of files."""

    def records_estimate(self) -> int | None:
        """About how many records of `__consumer_offsets` there are; None where it can't say."""

    def end_ms(self) -> int | None:
        """Until when the history is whole: of a broker its opening, of an archive what it was read
        to. None where that is the last record's time.
        """

    def moved_bytes(self) -> int:
        """What its own questions moved over the wire until now; 0 for files.

        What reading parts moved is the engine's to count.
        """
