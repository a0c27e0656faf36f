"""Records that a load skips: `offsets.load.skip.records`, and its like for transactional ids.

This is for an operator who would rather lose a record that can't be read than all that its
partition keeps. Each skipped record has a line in the log.
"""

from __future__ import annotations

from collections.abc import Collection

import structlog

from protocol.buffer import Buffer
from protocol.records.batch import BatchHeader
from protocol.records.corrupt import CorruptRecords
from protocol.records.section import Record
from protocol.records.stored import stored_records

logger = structlog.get_logger(__name__)

_SHOWN_BYTES = 200
"""So much of a key or a value is logged."""


class PassOver:
    """The records of one partition that are passed over, by their offsets in its log."""

    def __init__(self, topic: str, partition: int, offsets: Collection[int]) -> None:
        self.topic = topic
        self.partition = partition
        self.offsets = frozenset(offsets)
        self.met = False
        """One was in what has been loaded, so that only a snapshot spares the next load of it."""

    def concerns(self, header: BatchHeader) -> bool:
        """Whether any is in this batch."""
        return any(header.base_offset <= offset <= header.last_offset for offset in self.offsets)

    def takes(self, header: BatchHeader) -> bool:
        """Whether the whole batch is passed over: a marker, or one that can't be taken apart."""
        if header.base_offset not in self.offsets:
            return False
        self.met = True
        logger.warning(
            "batch skipped by setting",
            topic=self.topic,
            partition=self.partition,
            offset=header.base_offset,
            records=header.record_count,
            bytes=header.size_bytes,
        )
        return True

    def rest(self, data: Buffer, header: BatchHeader) -> list[Record]:
        """The records of a batch that are not passed over. Raises CorruptRecords."""
        try:
            records = stored_records(data, header)
        except CorruptRecords:
            if self.takes(header):
                return []
            raise
        rest = []
        for record in records:
            if record.offset not in self.offsets:
                rest.append(record)
                continue
            self.met = True
            logger.warning(
                "record skipped by setting",
                topic=self.topic,
                partition=self.partition,
                offset=record.offset,
                key=_shown(record.key),
                value=_shown(record.value),
                value_bytes=-1 if record.value is None else len(record.value),
            )
        return rest


def _shown(data: bytes | None) -> str | None:
    return None if data is None else repr(bytes(data[:_SHOWN_BYTES]))[2:-1]
