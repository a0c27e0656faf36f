"""Reads a running cluster as a source: `__consumer_offsets` up to its end when the source was
opened."""

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
"""The maximum number of offsets that one task reads. A task can read several partitions."""


class BrokerSource:
    """A running cluster as a source. Opening it raises Unreachable if no broker answers."""

    def __init__(self, where: str, reach: Reach) -> None:
        self.where = where
        self.reach = reach
        self._brokers = Brokers(reach)
        view = self._brokers.look(None)
        self.cluster_id = view.cluster_id
        self.log_partitions = log_partitions(self._brokers, view, where)
        """The partition numbers of `__consumer_offsets`."""
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
        """For each partition of `__consumer_offsets`: the log start offset and the log end offset
        when the source was opened."""

    def event_parts(self, partitions: Collection[int] | None) -> Sequence[Part]:
        absent = sorted(set(partitions or ()) - set(self.log_partitions))
        if absent:
            raise PipelineError(
                f"{self.where} has no partition {', '.join(map(str, absent))} of {OFFSETS_TOPIC}:"
                " check --partitions"
            )
        wanted = self.log_partitions if partitions is None else sorted(set(partitions))
        offsets = {number: self.offsets[number] for number in wanted}
        return log_parts(self.reach, offsets, self._brokers.view.topic_ids)

    def event_files(self) -> None:
        """Returns None, because the events are read from brokers."""

    def stretch_parts(self, asked: TimesAsked) -> Sequence[Part]:
        """Implements `Source.stretch_parts`. Requests the times only of topics in which groups
        committed, and reads no records of these topics."""
        return [Rows(ask_times(self._brokers, asked, clock.now_ms))]

    def stretch_files(self) -> None:
        """Returns None, because a broker source reads no files."""

    def topics(self) -> Collection[str]:
        return {name for name, _ in self._brokers.view.leaders if not name.startswith("__")}

    def hidden(self, topics: Collection[str]) -> Collection[str]:
        return hidden(self._brokers, sorted(topics))

    def records_estimate(self) -> int:
        """Returns an upper bound: the number of offsets, which includes records that compaction
        removed."""
        return sum(end - start for start, end in self.offsets.values())

    def end_ms(self) -> int:
        """Returns the time in ms at which the source was opened."""
        return self._end_ms

    def moved_bytes(self) -> int:
        return self._brokers.moved_bytes


def log_parts(
    reach: Reach, offsets: Mapping[int, tuple[int, int]], topic_names: Mapping[str, str]
) -> list[LogPart]:
    """Splits ranges of offsets into the parts that an engine reads concurrently. ``offsets`` has
    for each partition the first offset and the offset after the last one."""
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
