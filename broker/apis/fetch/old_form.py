"""Converts records for clients that do not know batches (Fetch v0 to v3) into message sets of magic
0 or 1."""

from __future__ import annotations

from typing import NamedTuple

import structlog

from broker.topics.partition import Partition
from log.values import ReadInfo
from protocol.errors import CORRUPT_MESSAGE, NONE, UNSUPPORTED_VERSION
from protocol.records.convert import down_convert, needs_conversion
from protocol.records.corrupt import CorruptRecords, NoOldForm
from protocol.records.stored import iter_stored

logger = structlog.get_logger(__name__)


class Converted(NamedTuple):
    """Message sets for an old client, or an error code; ``records`` is the number of converted
    records."""

    error_code: int
    data: bytes = b""
    records: int = 0


def old_form(
    partition: Partition,
    info: ReadInfo,
    end: int,
    magic: int,
    offset: int,
    limit: int,
    *,
    may_convert: bool,
) -> Converted:
    """Returns the records of ``info`` for an old client, in format ``magic`` or older. The result
    ends before the offset ``end``, and before the first zstd batch.

    Batches without a record for an old client (markers, and batches that the cleaner emptied) are
    skipped: after an empty response an old client would fetch from the same offset forever. The
    function waits for the disk, so it runs outside the event loop's thread. Raises CorruptLog and
    OSError.
    """
    data = info.data
    if not needs_conversion(data, magic):
        return Converted(NONE, data)
    if not may_convert:
        return Converted(UNSUPPORTED_VERSION)
    records = 0
    try:
        while True:
            converted = down_convert(data, magic, offset)
            records += converted.records
            if converted.data:
                return Converted(NONE, converted.data, records)
            last = max(header.last_offset for header, _ in iter_stored(data, partial=True))
            data = partition.log.read(last + 1, limit, max_offset=end).data
            if not data:
                return Converted(NONE, b"", records)
    except NoOldForm as refused:
        return Converted(refused.error_code)
    except CorruptRecords as error:
        logger.error("batch can't be down-converted", partition=partition.name, why=error.message)
        return Converted(CORRUPT_MESSAGE)
