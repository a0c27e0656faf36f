"""Records that a load skips, because `offsets.load.skip.records` or the corresponding setting for
transactional ids lists them.

With such a setting an operator loses one unreadable record, instead of all groups or transactional
ids of the partition. Each skipped record is logged.
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
"""The maximum number of bytes of a key or a value that one log line shows."""


class PassOver:
    """The log offsets of the records of one partition that a load must skip."""

    def __init__(self, topic: str, partition: int, offsets: Collection[int]) -> None:
        self.topic = topic
        self.partition = partition
        self.offsets = frozenset(offsets)
        self.met = False
        """True if a load has skipped a record. The operator must then keep the setting that lists
        the record until a snapshot is written."""

    def concerns(self, header: BatchHeader) -> bool:
        """Returns True if the load must skip a record that is in the batch."""
        return any(header.base_offset <= offset <= header.last_offset for offset in self.offsets)

    def takes(self, header: BatchHeader) -> bool:
        """Returns True, and logs the batch, if the whole batch must be skipped.

        Called for a batch whose records are not decoded: a transaction marker, or a batch that
        can't be decoded.
        """
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
        """Returns the records of a batch, except those to skip. Raises CorruptRecords."""
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
