"""What an archive is added to from: looks at a history that grows, one after the other."""

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
    """What topics have grown by."""

    stretches: Iterable[pa.Table] = ()
    """Of STRETCHES; all have to be taken before ``topics`` is whole."""
    topics: dict[str, TopicEnds] = field(default_factory=dict)
    forgotten: tuple[str, ...] = ()
    """Topics that were deleted and made again under the same name."""


class News(Protocol):
    """A history as it was at one look."""

    @property
    def cluster_id(self) -> str | None:
        """None where it is not known."""

    @property
    def log_id(self) -> str | None:
        """Of the topic `__consumer_offsets`; None where it is not known."""

    @property
    def at_ms(self) -> int | None:
        """When it was looked at; None of files, which say no more than their records."""

    @property
    def starts(self) -> Mapping[int, int]:
        """The first offset that each partition of `__consumer_offsets` still has."""

    @property
    def ends(self) -> Mapping[int, int]:
        """Behind the last one; empty where it is not known before all is read."""

    def events(self, positions: Mapping[int, int]) -> Iterator[pa.RecordBatch]:
        """EVENTS from these offsets on, of a partition that is not named from its start; some from
        before may be among them. Unreachable, PipelineError.
        """

    def growth(self, held: Held, known: Mapping[str, TopicEnds]) -> Growth:
        """How topics have grown that are known, and that groups committed to. Unreachable."""


class Feed(Protocol):
    """A history that grows."""

    where: str
    """As it was given."""

    def look(self) -> News:
        """How it is now. Unreachable where nobody answers."""
