"""Reads a history from folders of segments: the data folders of a broker, folders of partitions, or
copies of these."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from pipeline.engines.engine import Part, Rows
from pipeline.errors import PipelineError
from pipeline.model.events import STRETCHES
from pipeline.sources.group_records import TopicNames
from pipeline.sources.segment_ends import log_start
from pipeline.sources.segment_files import (
    OFFSETS_TOPIC,
    Segment,
    cluster_id_of,
    lost_partitions,
    partition_folders,
    segments_of,
    topic_names,
)
from pipeline.sources.segment_rows import OffsetRows, StretchRows, read_segment
from pipeline.sources.source import OfFiles, TimesAsked

PART_BYTES: Final = 8 << 20
"""The maximum number of bytes of the adjacent segments that form one part together. One task reads
one part. Small segments share a part, because each part has a fixed cost."""
RECORD_BYTES: Final = 60
"""The assumed size in bytes of a stored offset commit. The real size is about 100 bytes without
compression, and less in compressed batches."""


@dataclass(frozen=True)
class EventSegments:
    """The rows of EVENTS that one task reads: the rows of several segments, one segment after the
    other."""

    segments: tuple[Segment, ...]
    names: TopicNames

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows. Unreadable data of a segment becomes rows too."""
        for segment in self.segments:
            yield from read_segment(segment, OffsetRows(segment, self.names))


@dataclass(frozen=True)
class StretchSegments:
    """Several segments that one task reads. `read` yields their STRETCHES: one row for each batch
    of a segment."""

    segments: tuple[Segment, ...]

    def read(self) -> Iterator[pa.RecordBatch]:
        for segment in self.segments:
            yield from read_segment(segment, StretchRows(segment))


class FolderSource(OfFiles):
    """A source that reads the segments in folders."""

    def __init__(self, where: str) -> None:
        """Finds the partitions in the folders. Raises PipelineError if the folders contain no
        partition of `__consumer_offsets`."""
        self.where = where
        self.cluster_id = cluster_id_of(where)
        self._folders = partition_folders(where)
        self._log = sorted(p for topic, p in self._folders if topic == OFFSETS_TOPIC)
        self._lost = lost_partitions(where, OFFSETS_TOPIC, self._log)
        if not self._log:
            raise PipelineError(
                f"{where} has no partition of {OFFSETS_TOPIC}: name a broker's data folder, or a"
                f" partition's folder such as {OFFSETS_TOPIC}-0"
            )

    def starts(self) -> dict[int, int]:
        """Returns the base offset of the first segment of each partition of `__consumer_offsets`.
        No earlier record exists."""
        segments = {number: self._segments(OFFSETS_TOPIC, number) for number in self._log}
        return {number: found[0].base_offset for number, found in segments.items() if found}

    def event_parts(self, partitions: Collection[int] | None) -> Sequence[Part]:
        absent = sorted(set(partitions or ()) - {*self._log, *self._lost})
        if absent:
            raise PipelineError(
                f"{self.where} has no partition {', '.join(map(str, absent))} of {OFFSETS_TOPIC}:"
                " check --partitions"
            )
        wanted = {*self._log, *self._lost} if partitions is None else set(partitions)
        segments = [
            each
            for number in sorted(wanted)
            for each in (
                [self._lost[number]]
                if number in self._lost
                else self._segments(OFFSETS_TOPIC, number)
            )
        ]
        names = topic_names(self._folders)
        return [EventSegments(part, names) for part in in_parts(segments)]

    def event_files(self) -> None:
        """Returns None, because the events are in segments and not in Parquet files."""

    def stretch_parts(self, asked: TimesAsked) -> Sequence[Part] | None:
        if not self.topics():
            return None
        logs = [
            self._segments(topic, number)
            for topic, number in sorted(self._folders)
            if topic in asked.topics
        ]
        starts = [self._start(log[0]) for log in logs if log]
        segments = [segment for log in logs for segment in log]
        return [
            *(StretchSegments(part) for part in in_parts(segments)),
            Rows(pa.Table.from_pylist(starts, STRETCHES)),
        ]

    def stretch_files(self) -> None:
        """Returns None: a folder of segments has no files with rows of STRETCHES."""

    def topics(self) -> Collection[str]:
        return {topic for topic, _ in self._folders if not topic.startswith("__")}

    def records_estimate(self) -> int:
        segments = [each for number in self._log for each in self._segments(OFFSETS_TOPIC, number)]
        return sum(_size_of(each) or 0 for each in segments) // RECORD_BYTES

    def end_ms(self) -> None:
        """Returns None, because the history ends at the time of its last record."""

    def _start(self, first: Segment) -> dict[str, Any]:
        """Returns a row of STRETCHES without records, whose base offset is the log start offset."""
        folder = self._folders[first.topic, first.partition]
        start = log_start(first.topic, first.partition, folder, first.base_offset)
        return {
            **dict.fromkeys(STRETCHES.names),
            "topic": first.topic,
            "partition": first.partition,
            "base_offset": start,
            "last_offset": start - 1,
        }

    def _segments(self, topic: str, partition: int) -> list[Segment]:
        return segments_of(topic, partition, self._folders[topic, partition])


def in_parts(segments: Sequence[Segment]) -> list[tuple[Segment, ...]]:
    """Groups neighbouring segments into parts of at most PART_BYTES. A larger segment is a part of
    its own.

    Skips an empty segment, unless other files show that it once had records.
    """
    parts: list[list[Segment]] = []
    room = 0
    for segment in segments:
        size = _size_of(segment)
        if size == 0 and (segment.due is None or segment.due.offset <= segment.base_offset):
            continue
        if not parts or size is None or size > room:
            parts.append([])
            room = PART_BYTES
        parts[-1].append(segment)
        room -= size or 0
    return [tuple(part) for part in parts]


def _size_of(segment: Segment) -> int | None:
    """Returns the size of a segment's file in bytes. Returns None if the file can't be accessed;
    the reader of the segment then reports the error."""
    try:
        return os.stat(segment.file).st_size
    except OSError:
        return None
