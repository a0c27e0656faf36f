"""The interface through which an archive reads a growing history repeatedly; each of these reads is
a look."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from pipeline.storage.manifest import TopicEnds

Held = Mapping[tuple[str, int], Collection[int]]
"""The offsets that groups committed, by topic and partition."""


@dataclass(frozen=True)
class Growth:
    """The growth of topics since the previous look."""

    stretches: Iterable[pa.Table] = ()
    """Tables of STRETCHES. ``topics`` is complete only after all these tables were consumed."""
    topics: dict[str, TopicEnds] = field(default_factory=dict)
    forgotten: tuple[str, ...] = ()
    """Topics that were deleted and recreated under the same name."""


class News(Protocol):
    """The state of a history at one look."""

    @property
    def cluster_id(self) -> str | None:
        """The cluster id; None if unknown."""

    @property
    def log_id(self) -> str | None:
        """The topic id of `__consumer_offsets`; None if unknown."""

    @property
    def at_ms(self) -> int | None:
        """The time of the look in ms; None for files, which have only times of records."""

    @property
    def starts(self) -> Mapping[int, int]:
        """The log start offset of each partition of `__consumer_offsets`."""

    @property
    def ends(self) -> Mapping[int, int]:
        """The log end offset of each partition; empty if it is unknown before the log was read."""

    def events(self, positions: Mapping[int, int]) -> Iterator[pa.RecordBatch]:
        """Return EVENTS from these offsets on; a partition without an offset is read from its log
        start offset.

        Some earlier rows may be included. Raises Unreachable and PipelineError.
        """

    def growth(self, held: Held, known: Mapping[str, TopicEnds]) -> Growth:
        """Return the growth of known topics, and of topics in which groups committed. Raises
        Unreachable.
        """


class Feed(Protocol):
    """A history that grows."""

    where: str
    """The name of the source, as given by the user."""

    def look(self) -> News:
        """Return the present state of the history. Raise Unreachable if no broker answers."""
