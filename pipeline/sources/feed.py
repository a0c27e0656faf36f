"""The interface between an archive and a history that grows, which it reads look by look."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from pipeline.storage.manifest import TopicEnds

Held = Mapping[tuple[str, int], Collection[int]]
"""By topic and partition, offsets that groups committed."""


@dataclass(frozen=True)
class Growth:
    """The growth of topics."""

    stretches: Iterable[pa.Table] = ()
    """Tables of STRETCHES; ``topics`` is complete only after all were consumed."""
    topics: dict[str, TopicEnds] = field(default_factory=dict)
    forgotten: tuple[str, ...] = ()
    """Topics that were deleted and recreated under the same name."""


class News(Protocol):
    """A history as it was at one look."""

    @property
    def cluster_id(self) -> str | None:
        """None if unknown."""

    @property
    def log_id(self) -> str | None:
        """The topic id of `__consumer_offsets`; None if unknown."""

    @property
    def at_ms(self) -> int | None:
        """The time of the look; None for files, which report only their records."""

    @property
    def starts(self) -> Mapping[int, int]:
        """The log start offset of each partition of `__consumer_offsets`."""

    @property
    def ends(self) -> Mapping[int, int]:
        """The log end offset of each partition; empty if unknown before everything is read."""

    def events(self, positions: Mapping[int, int]) -> Iterator[pa.RecordBatch]:
        """EVENTS from these offsets on, or from the log start of a partition that is not named;
        some earlier rows may be included. Unreachable, PipelineError.
        """

    def growth(self, held: Held, known: Mapping[str, TopicEnds]) -> Growth:
        """The growth of known topics, and of topics that groups committed to. Unreachable."""


class Feed(Protocol):
    """A history that grows."""

    where: str
    """The name of the source, as given by the user."""

    def look(self) -> News:
        """The present state. Unreachable if no broker answers."""
