"""What one look at the logs finds for a Fetch: in order, within the bounds, converted where old."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

import structlog

from broker.fetch_response import Fetched
from broker.fetch_sessions import Wanted
from broker.leader_epoch import epoch_error
from broker.logs import TopicLogs
from broker.request import Chunk, FileSlice
from log.batch_scan import headers
from log.errors import CorruptLog, OffsetOutOfRange
from log.partition_log import PartitionLog
from log.transactions import seen_from
from log.values import ReadInfo, Slice
from protocol.errors import (
    CORRUPT_MESSAGE,
    KAFKA_STORAGE_ERROR,
    NOT_LEADER_OR_FOLLOWER,
    OFFSET_OUT_OF_RANGE,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSUPPORTED_COMPRESSION_TYPE,
    UNSUPPORTED_VERSION,
)
from protocol.records.batch import CODEC_BITS
from protocol.records.compression import ZSTD
from protocol.records.convert import down_convert, needs_conversion
from protocol.records.corrupt import CorruptRecords
from protocol.records.stored import iter_stored

if TYPE_CHECKING:
    from broker.broker import Broker

logger = structlog.get_logger(__name__)

_FIRST_WITH_MAGIC_1 = 2
_FIRST_WITH_MAGIC_2 = 4
_FIRST_WITH_ZSTD = 10
CONVERTED_BYTES_MAX = 1 << 20
"""So much of the logs is read for one answer in an old form: making it holds the loop, 10 us a
record. Where more is asked for, whose turn it is is left to chance."""


class Reader:
    """Reads for one request of ``version``, as often as it looks."""

    def __init__(
        self, broker: Broker, version: int, read_committed: bool, is_replica: bool
    ) -> None:
        self.broker = broker
        self.version = version
        self.read_committed = read_committed
        self.is_replica = is_replica

    def read(self, wanted: Sequence[Wanted], max_bytes: int) -> tuple[list[Fetched], int]:
        """What there is for each of ``wanted``, and how many bytes that is in all."""
        if self.version < _FIRST_WITH_MAGIC_2 and max_bytes > CONVERTED_BYTES_MAX and wanted:
            turn = random.randrange(len(wanted))
            found, total = self.read([*wanted[turn:], *wanted[:turn]], CONVERTED_BYTES_MAX)
            return [*found[-turn:], *found[:-turn]] if turn else found, total
        total = 0
        found = []
        for entry in wanted:
            fetched = self._partition(entry, max_bytes - total, first=total == 0)
            total += fetched.size_bytes
            found.append(fetched)
        return found, total

    def _partition(self, wanted: Wanted, room: int, first: bool) -> Fetched:
        if isinstance(wanted.topic, bytes):
            name = self.broker.registry.topic_name(wanted.topic)
            if name is None:
                return Fetched(wanted.partition, UNKNOWN_TOPIC_ID)
        else:
            name = wanted.topic
        topic = self.broker.logs.topics.get(name)
        log = None if topic is None else topic.log(wanted.partition)
        if topic is None or log is None:
            return Fetched(wanted.partition, UNKNOWN_TOPIC_OR_PARTITION)
        if self.is_replica:
            return Fetched(wanted.partition, NOT_LEADER_OR_FOLLOWER)
        error_code = epoch_error(log, wanted.current_leader_epoch)
        if error_code:
            return Fetched(wanted.partition, error_code)
        try:
            return self._read(topic, log, wanted, room, first)
        except CorruptLog as error:
            logger.error("a log can't be read", partition=f"{name}-{log.partition}", why=str(error))
            return Fetched(wanted.partition, KAFKA_STORAGE_ERROR)

    def _read(
        self, topic: TopicLogs, log: PartitionLog, wanted: Wanted, room: int, first: bool
    ) -> Fetched:
        if wanted.last_fetched_epoch >= 0:
            epoch, end = log.epochs.end_offset_for(wanted.last_fetched_epoch, log.high_watermark)
            if epoch < 0:
                return Fetched(log.partition, OFFSET_OUT_OF_RANGE)
            if epoch < wanted.last_fetched_epoch or end < wanted.fetch_offset:
                return self._fetched(log, 0, diverging=(epoch, end))
        limit = max(0, min(room, wanted.max_bytes))
        try:
            stable = log.last_stable_offset if self.read_committed else None
            info = log.read(wanted.fetch_offset, limit, first, stable)
        except OffsetOutOfRange:
            return Fetched(log.partition, OFFSET_OUT_OF_RANGE)
        if not info.slices or info.first_entry_incomplete:
            return self._fetched(log, 0)
        if self.version < _FIRST_WITH_ZSTD:
            return self._for_old_client(topic, log, info, wanted.fetch_offset, limit)
        fetched = self._fetched(log, 0)
        if self.read_committed and log.aborted:
            fetched.aborted_transactions = seen_from(log, wanted.fetch_offset)
        fetched.records = [FileSlice(*piece) for piece in info.slices]
        fetched.size_bytes = info.size_bytes
        return fetched

    def _fetched(
        self, log: PartitionLog, error_code: int, diverging: tuple[int, int] | None = None
    ) -> Fetched:
        """The fields beside the records."""
        return Fetched(
            log.partition,
            error_code,
            log.high_watermark,
            log.last_stable_offset,
            log.log_start_offset,
            () if self.read_committed and not error_code else None,
            diverging=diverging,
        )

    def _for_old_client(
        self, topic: TopicLogs, log: PartitionLog, info: ReadInfo, offset: int, limit: int
    ) -> Fetched:
        """Records for a client that may not know zstd, or not even batches."""
        pieces = _before_zstd(info)
        if pieces is None:
            return self._fetched(log, UNSUPPORTED_COMPRESSION_TYPE)
        fetched = self._fetched(log, 0)
        fetched.records = [FileSlice(*piece) for piece in pieces]
        if self.version < _FIRST_WITH_MAGIC_2:
            magic = 0 if self.version < _FIRST_WITH_MAGIC_1 else 1
            data = _bytes(pieces)
            if needs_conversion(data, magic):
                if not topic.settings["message.downconversion.enable"]:
                    return self._fetched(log, UNSUPPORTED_VERSION)
                try:
                    data = self._converted(log, data, magic, offset, limit)
                except CorruptRecords as error:
                    logger.error("a batch can't be converted", log=log.directory, why=error.message)
                    return self._fetched(log, CORRUPT_MESSAGE)
                fetched.records = [data]
        fetched.size_bytes = sum([_size(chunk) for chunk in fetched.records])
        return fetched

    def _converted(
        self, log: PartitionLog, data: bytes, magic: int, offset: int, limit: int
    ) -> bytes:
        """Message sets of the old magic.

        Batches without a record for an old client (markers, emptied ones) are passed over: with an
        answer of nothing it would ask for the same offset for ever.
        """
        while True:
            converted = down_convert(data, magic, offset)
            self.broker.metrics.fetch_conversions += converted.records
            if converted.data:
                return converted.data
            last = max(header.last_offset for header, _ in iter_stored(data, partial=True))
            following = _before_zstd(log.read(last + 1, limit))
            if not following:
                return b""
            data = _bytes(following)


def _before_zstd(info: ReadInfo) -> list[Slice] | None:
    """The entries before the first in zstd, None when it is the very first.

    Their headers are looked at, and their records stay where they are.
    """
    kept: list[Slice] = []
    for piece in info.slices:
        end = piece.position + piece.length
        for header in headers(piece.file, piece.position, piece.file.size()):
            if header.position >= end:
                break
            if header.attributes & CODEC_BITS == ZSTD:
                if header.position > piece.position:
                    kept.append(piece._replace(length=header.position - piece.position))
                return kept or None
        kept.append(piece)
    return kept


def _bytes(pieces: Sequence[Slice]) -> bytes:
    return b"".join([piece.file.read(piece.position, piece.length) for piece in pieces])


def _size(chunk: Chunk) -> int:
    return chunk.length if isinstance(chunk, FileSlice) else len(chunk)
