"""A running cluster as a source: `__consumer_offsets` as it was at the opening."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from pipeline import clock
from pipeline.engines.engine import Part, Rows
from pipeline.errors import PipelineError
from pipeline.sources.segment_files import OFFSETS_TOPIC
from pipeline.sources.source import TimesAsked
from pipeline.sources.wire.brokers import Brokers, Reach
from pipeline.sources.wire.listing import (
    EARLIEST,
    LATEST,
    hidden,
    list_offsets,
    log_partitions,
)
from pipeline.sources.wire.log import LogPart
from pipeline.sources.wire.times import ask_times

PART_RECORDS: Final = 500_000
"""Partitions of the log share a part up to this number of offsets."""


class BrokerSource:
    """The topics of a running cluster. Unreachable if no broker answers."""

    def __init__(self, where: str, reach: Reach) -> None:
        self.where = where
        self.reach = reach
        self._brokers = Brokers(reach)
        view = self._brokers.look(None)
        self.cluster_id = view.cluster_id
        self.log_partitions = log_partitions(self._brokers, view, where)
        """The partitions of the offsets topic."""
        if not self.log_partitions:
            self._brokers.close()
            raise PipelineError(f"{where} has no {OFFSETS_TOPIC}: no group has committed there yet")
        logs = [(OFFSETS_TOPIC, number) for number in self.log_partitions]
        self._end_ms = clock.now_ms()
        ends = list_offsets(self._brokers, [(log, LATEST) for log in logs])
        starts = list_offsets(self._brokers, [(log, EARLIEST) for log in logs])
        self.offsets = {
            number: (start.offset, end.offset)
            for number, start, end in zip(self.log_partitions, starts, ends, strict=True)
        }
        """The first offset of each partition of the log, and the one after its last."""

    def event_parts(self, partitions: Collection[int] | None) -> Sequence[Part]:
        """See Source."""
        absent = sorted(set(partitions or ()) - set(self.log_partitions))
        if absent:
            raise PipelineError(
                f"{self.where} has no partition {', '.join(map(str, absent))} of {OFFSETS_TOPIC}"
            )
        wanted = self.log_partitions if partitions is None else sorted(set(partitions))
        offsets = {number: self.offsets[number] for number in wanted}
        return log_parts(self.reach, offsets, self._brokers.view.topic_ids)

    def event_files(self) -> None:
        """Return None: the events are read over the wire."""

    def stretch_parts(self, asked: TimesAsked) -> Sequence[Part]:
        """See Source. Only topics that groups committed to are requested; no record of them is
        read.
        """
        return [Rows(ask_times(self._brokers, asked, clock.now_ms))]

    def stretch_files(self) -> None:
        """Return None: the stretches are parts."""

    def topics(self) -> Collection[str]:
        """See Source."""
        return {name for name, _ in self._brokers.view.leaders if not name.startswith("__")}

    def hidden(self, topics: Collection[str]) -> Collection[str]:
        """See Source."""
        return hidden(self._brokers, sorted(topics))

    def records_estimate(self) -> int:
        """An upper bound: it includes records that were compacted away."""
        return sum(end - start for start, end in self.offsets.values())

    def end_ms(self) -> int:
        """The time of the opening."""
        return self._end_ms

    def moved_bytes(self) -> int:
        """See Source."""
        return self._brokers.moved_bytes


def log_parts(
    reach: Reach, offsets: Mapping[int, tuple[int, int]], topic_names: Mapping[str, str]
) -> list[LogPart]:
    """Parts that read partitions of the log from their first offset to before the second."""
    parts: list[list[tuple[int, int, int]]] = []
    room = 0
    for number, (start, end) in offsets.items():
        if start >= end:
            continue
        if not parts or end - start > room:
            parts.append([])
            room = PART_RECORDS
        parts[-1].append((number, start, end))
        room -= end - start
    return [LogPart(reach, tuple(part), topic_names) for part in parts]
