"""Stores each log's first dirty offset in cleaner-offset-checkpoint, and counts dirty bytes. The
file has Kafka's format and is not essential: if it is missing or damaged, cleaning starts at the
log start offset of each log."""

from __future__ import annotations

import os
from collections.abc import Iterable
from threading import Lock

import structlog

from broker.topics.logs import LogManager
from log.checkpoint import CLEANER_OFFSET, TopicPartition, read_offsets, write_offsets
from log.cleaner.clean_plan import Cleanable, SegmentFacts, changes_in_ms, cleanable
from log.config import LONG_MAX
from log.errors import CorruptLog, NotInMemory
from log.partition_log import PartitionLog
from log.segment import Segment

logger = structlog.get_logger(__name__)


class CleanerCheckpoint:
    """The cleaner checkpoint of one broker. Only `write` may be called outside the event loop's
    thread."""

    def __init__(self, logs: LogManager) -> None:
        self._logs = logs
        self._path = os.path.join(logs.directory, CLEANER_OFFSET)
        self._first_dirty: dict[TopicPartition, int] = {}
        """The first dirty offset of each log that has been cleaned at least once."""
        self._writing = Lock()

    def read(self) -> None:
        """Reads the offsets of existing topics from the file. Raises OSError."""
        try:
            self._first_dirty = read_offsets(self._logs.fs, self._path)
        except CorruptLog as damage:
            logger.warning(
                "cleaner checkpoint is damaged, cleaning starts from the beginning of each log",
                why=str(damage),
            )
        for topic in {topic for topic, _ in self._first_dirty} - self._logs.topics.keys():
            self.forget(topic)

    def write(self) -> None:
        """Writes the file. Thread-safe."""
        with self._writing:
            try:
                write_offsets(self._logs.fs, self._path, dict(self._first_dirty))
            except OSError as error:
                logger.warning("cleaner checkpoint can't be written", error=str(error))

    def note(self, log: PartitionLog, end_offset: int) -> None:
        """Stores the offset ``end_offset`` (exclusive) up to which a log has been cleaned."""
        self._first_dirty[log.topic, log.partition] = end_offset

    def forget(self, topic: str) -> None:
        for key in [key for key in self._first_dirty if key[0] == topic]:
            del self._first_dirty[key]

    def cleaned_to(self, topic: str, partition: int) -> int:
        """Returns the offset below which a partition's log has been cleaned."""
        return self._first_dirty.get((topic, partition), 0)

    # -- dirty parts of logs

    def judge(self, log: PartitionLog, now_ms: int) -> Cleanable:
        """Returns the part of a log that may be cleaned at ``now_ms`` (wall clock)."""
        return cleanable(
            segment_facts(log.segments),
            self._first_dirty.get((log.topic, log.partition)),
            log.log_start_offset,
            log.config,
            now_ms,
            _stable(log),
        )

    def changes_in_ms(self, log: PartitionLog, now_ms: int) -> int | None:
        """Returns the time in ms until the result of `judge` changes or the active segment is
        rolled, whichever is first, if nothing is appended to the log. Returns None if neither will
        happen."""
        facts = segment_facts(log.segments)
        return changes_in_ms(facts, log.active.first_timestamp_ms, log.config, now_ms)

    def first_dirty(self, log: PartitionLog) -> int:
        checkpoint = self.cleaned_to(log.topic, log.partition)
        if checkpoint > log.active.base_offset:
            checkpoint = 0
        return max(checkpoint, log.log_start_offset)

    def dirty_bytes(self, log: PartitionLog) -> int:
        """Returns the number of bytes that have not been cleaned yet, including the active segment.
        The count ends at the first offset of an open transaction."""
        stable_offset, stable_bytes = _stable(log)
        size = 0
        for segment in log.segments.from_offset(self.first_dirty(log)):
            if log.segments.end_of(segment, log.log_end_offset) > stable_offset:
                return size + (stable_bytes if segment.base_offset < stable_offset else 0)
            size += segment.size
        return size


def _stable(log: PartitionLog) -> tuple[int, int]:
    """Returns the offset below which the cleaner may clean the log now. Records from this offset on
    are above the high watermark or may be in an open transaction. Also returns the position of this
    offset in its segment, in bytes."""
    offset = log.first_uncleanable_offset
    if offset == log.log_end_offset:
        return LONG_MAX, 0
    try:
        place = log.segments.at(offset).locate(offset, wait=False)
    except (NotInMemory, CorruptLog):
        place = None
    return offset, 0 if place is None else place.position


def segment_facts(segments: Iterable[Segment]) -> list[SegmentFacts]:
    """Returns the properties of each segment that are needed to plan a cleaning."""
    return [
        SegmentFacts(
            segment.base_offset,
            segment.size,
            segment.max_timestamp_ms,
            segment.index.size_bytes,
            segment.time_index.size_bytes,
        )
        for segment in segments
    ]
