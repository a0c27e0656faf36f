"""Cleaning messages of magic 0 and 1, from before Kafka 0.11; they keep their format.

A plain message stays as it is or is removed; a wrapper that loses some is written again with the
others, in its codec. These formats have no place for a delete horizon: a tombstone that an earlier
cleaning has seen is removed when it is older than `delete.retention.ms`, by its own time or, in
magic 0, by that of its segment's file.
"""

from __future__ import annotations

from collections.abc import Sequence

from log.cleaner.clean_scan import CODEC_BITS, LOG_APPEND_BIT, Frame
from log.errors import CorruptLog
from protocol.records.batch import CREATE_TIME, LOG_APPEND_TIME
from protocol.records.corrupt import CorruptRecords
from protocol.records.message_set import encode
from protocol.records.section import Record
from protocol.records.stored import read_stored, stored_records, validate_stored


def messages_of(frame: Frame, path: str) -> list[Record]:
    """What a message holds, a wrapper opened; its checksum is compared. Raises CorruptLog."""
    entry = frame.chunk[frame.start : frame.stop]
    try:
        header = read_stored(entry)
        validate_stored(entry, header)
        return stored_records(entry, header)
    except CorruptRecords as error:
        raise CorruptLog(path, frame.position, error.message) from None


def message_with(frame: Frame, kept: Sequence[Record]) -> bytes:
    """The wrapper ``frame`` with the messages of ``kept`` alone, at least one."""
    stamped = bool(frame.attributes & LOG_APPEND_BIT)
    return encode(
        kept,
        frame.magic,
        frame.attributes & CODEC_BITS,
        timestamp_type=LOG_APPEND_TIME if stamped else CREATE_TIME,
        append_time=frame.max_timestamp if stamped else None,
    )


def memory_of(messages: Sequence[Record]) -> int:
    """Bytes of keys and values: at least what their keys take in the map."""
    return sum(len(message.key or b"") + len(message.value or b"") for message in messages)
