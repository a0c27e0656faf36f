"""Conversion between message sets and batches, for clients from before Kafka 0.11.

Up: what Produce v0-v2 brings becomes one batch. Down: what Fetch v0-v3 may carry has no headers,
no control batches and no zstd; offsets stay what they are.
"""

from __future__ import annotations

from protocol.records.batch import (
    CREATE_TIME,
    DECOMPRESSED_BYTES_MAX,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    encode_batch,
    iter_batches,
    records_of,
)
from protocol.records.compression import ZSTD
from protocol.records.corrupt import CorruptRecords, NoOldForm
from protocol.records.crc import Buffer
from protocol.records.message_set import MessageSet, encode, read_set


def to_magic2(
    message_set: Buffer,
    now_ms: int,
    *,
    limit: int = DECOMPRESSED_BYTES_MAX,
    timestamp_type: int = CREATE_TIME,
    compression: int | None = None,
) -> bytes:
    """Turn a message set of magic 0 or 1 into one batch with offsets from 0.

    CRCs and inner offsets are checked, wrappers opened to at most ``limit`` bytes in all. The batch
    keeps the set's codec unless ``compression`` names one. Records of magic 0 get NO_TIMESTAMP;
    under LOG_APPEND_TIME the batch has ``now_ms``, wall milliseconds.
    """
    return batch_of_set(
        read_set(message_set, limit),
        now_ms,
        timestamp_type=timestamp_type,
        compression=compression,
    )


def batch_of_set(
    decoded: MessageSet,
    now_ms: int,
    *,
    timestamp_type: int = CREATE_TIME,
    compression: int | None = None,
) -> bytes:
    """Turn a decoded message set, which must hold a record, into one batch with offsets from 0."""
    records = [record._replace(offset=i) for i, record in enumerate(decoded.records)]
    if not records:
        raise CorruptRecords("A message set without a message has no batch.")
    return encode_batch(
        records,
        compression=decoded.compression if compression is None else compression,
        timestamp_type=timestamp_type,
        max_timestamp=now_ms if timestamp_type == LOG_APPEND_TIME else None,
    )


def down_convert(
    batches: Buffer,
    magic: int,
    first_offset: int = 0,
    *,
    limit: int = DECOMPRESSED_BYTES_MAX,
) -> bytes:
    """Turn batches of a log into message sets of ``magic`` 0 or 1.

    A compressed batch becomes one wrapper of the same codec, a plain one plain messages, of which
    those below ``first_offset`` are left out. A batch that the end of ``batches`` cuts is ignored.
    ``limit`` bounds the decompressed bytes of each batch. Raises NoOldForm for zstd, and
    CorruptRecords for damage.
    """
    parts: list[bytes] = []
    for header, _ in iter_batches(batches, partial=True):
        if header.is_control:
            continue
        if header.compression == ZSTD:
            raise NoOldForm(
                f"The batch at offset {header.base_offset} is compressed with zstd, which magic"
                f" {magic} cannot carry."
            )
        records = records_of(batches, header, limit)
        if not header.compression:
            records = [record for record in records if record.offset >= first_offset]
        if records:
            parts.append(
                encode(
                    records,
                    magic,
                    header.compression,
                    timestamp_type=header.timestamp_type,
                    append_time=header.max_timestamp,
                )
            )
    return b"".join(parts)


__all__ = ["NO_TIMESTAMP", "NoOldForm", "batch_of_set", "down_convert", "to_magic2"]
