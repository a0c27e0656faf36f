"""The interface through which an archive reads a growing history repeatedly. Each of these reads is
called a look."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from pipeline.storage.manifest import TopicEnds

Held = Mapping[tuple[str, int], Collection[int]]
"""The offsets that groups have committed, by (topic, partition)."""


@dataclass(frozen=True)
class Growth:
    """How topics grew since the previous read of the history."""

    stretches: Iterable[pa.Table] = ()
    """Tables with rows of STRETCHES. The iteration over these tables fills ``topics``, so
    ``topics`` is complete only after the last table."""
    topics: dict[str, TopicEnds] = field(default_factory=dict)
    forgotten: tuple[str, ...] = ()
    """Topics that were deleted and recreated under the same name."""


class News(Protocol):
    """The state of a growing history at the time of one read."""

    @property
    def cluster_id(self) -> str | None: ...

    @property
    def log_id(self) -> str | None:
        """The topic id of `__consumer_offsets`; None if it is unknown."""

    @property
    def at_ms(self) -> int | None:
        """The time in ms at which the source was read; None for files, which contain only the times
        of records."""

    @property
    def starts(self) -> Mapping[int, int]:
        """The log start offset of each partition of `__consumer_offsets`."""

    @property
    def ends(self) -> Mapping[int, int]:
        """The log end offset of each partition of `__consumer_offsets`. Empty for files, because
        their end offsets are unknown before they are read."""

    def events(self, positions: Mapping[int, int]) -> Iterator[pa.RecordBatch]:
        """Yields EVENTS. Reads each partition of `__consumer_offsets` from its offset in
        ``positions`` on, or from its log start offset if ``positions`` does not contain it.

        Some rows before these offsets may also be in the result. Raises Unreachable and
        PipelineError.
        """

    def growth(self, held: Held, known: Mapping[str, TopicEnds]) -> Growth:
        """Returns the growth of the topics in ``known``, and of the topics in which groups
        committed (``held``). Raises Unreachable."""


class Feed(Protocol):
    """A growing history that can be read repeatedly."""

    where: str
    """The name of the source, as the user wrote it."""

    def look(self) -> News:
        """Returns the present state of the history. Raises Unreachable if no broker answers."""
