"""Validates produced message sets, from old clients and for topics that store an old format.

Records with the topic's magic (`ProduceRules.magic`) are stored unchanged. Other records are
converted once. Old formats have no producer ids, transactions, headers or zstd, so batches that
have one of these are rejected for topics with an old format.
"""

from __future__ import annotations

from collections.abc import Sequence

from protocol.buffer import Buffer
from protocol.errors import UNSUPPORTED_COMPRESSION_TYPE, UNSUPPORTED_FOR_MESSAGE_FORMAT
from protocol.records.batch import LOG_APPEND_TIME, BatchHeader, read_header, records_of
from protocol.records.budget import Budget
from protocol.records.compression import ZSTD
from protocol.records.convert import batch_of_set
from protocol.records.corrupt import CorruptRecords
from protocol.records.message_set import (
    Message,
    MessageSet,
    encode,
    read_set,
    with_offsets,
)
from protocol.records.produce_rules import (
    Produced,
    ProduceRules,
    append_time_from_client,
    check_size,
    check_times,
    has_time_bounds,
    without_keys,
)
from protocol.records.section import Record
from protocol.records.stored import iter_stored


def take_set(data: Buffer, now_ms: int, rules: ProduceRules, budget: Budget) -> Produced:
    """Validates a message set, and converts it to the topic's format. Raises CorruptRecords,
    including its subclass OverBudget."""
    left = budget.bytes_left
    decoded = read_set(data, rules.decompressed_bytes_max, budget=budget)
    if decoded.compression or rules.compression:
        budget.take_recompressed(len(data) + left - budget.bytes_left)
    check_size(decoded.largest_entry_bytes, rules)
    if rules.compacted:
        null_keys = [i for i, record in enumerate(decoded.records) if record.key is None]
        if null_keys:
            raise without_keys(null_keys)
    if decoded.timestamp_type == LOG_APPEND_TIME:
        raise append_time_from_client(len(decoded.records))
    if has_time_bounds(rules):
        check_times([record.timestamp for record in decoded.records], now_ms, rules)
    if rules.magic == 2:
        batch = batch_of_set(
            decoded,
            now_ms,
            timestamp_type=rules.timestamp_type,
            compression=rules.compression,
            compression_level=rules.compression_level,
        )
        check_size(len(batch), rules)
        return Produced(batch, [read_header(batch)], len(decoded.records))
    kept = _as_it_came(data, decoded, rules)
    if kept is not None:
        return _produced([kept], 0, rules)
    converted = len(decoded.records) if decoded.magic != rules.magic else 0
    return _produced([_encoded(decoded.records, decoded.compression, 0, rules)], converted, rules)


def store_as_set(data: Buffer, headers: Sequence[BatchHeader], rules: ProduceRules) -> Produced:
    """Converts validated batches of magic 2 to a message set of the topic's older magic. Raises
    CorruptRecords for content that the older magic does not support."""
    parts = []
    count = 0
    for header in headers:
        if header.producer_id >= 0 or header.is_transactional:
            raise _no_room("producer ids and transactions", rules)
        records = records_of(data, header, rules.decompressed_bytes_max)
        if any(record.headers for record in records):
            raise _no_room("record headers", rules)
        parts.append(_encoded(records, header.compression, count, rules))
        count += len(records)
    return _produced(parts, count, rules)


def _as_it_came(data: Buffer, decoded: MessageSet, rules: ProduceRules) -> bytes | None:
    """Returns the message set with new offsets and otherwise unchanged; None if the message set
    must be encoded again."""
    if decoded.magic != rules.magic:
        return None
    if not all(_fits(message, records, rules) for message, records in decoded.entries):
        return None
    return bytes(with_offsets(data, [len(records) for _, records in decoded.entries]))


def _fits(message: Message, records: Sequence[Record], rules: ProduceRules) -> bool:
    """Returns True if a message, which has the topic's magic, may be stored unchanged."""
    if rules.compression not in (None, message.compression):
        return False
    if not message.compression or not message.magic:
        return True  # a wrapper of magic 0 is encoded again when its offsets are assigned
    base = records[0].offset
    return all(record.offset == base + i for i, record in enumerate(records)) and (
        message.timestamp == max(record.timestamp for record in records)
    )


def _encoded(
    records: Sequence[Record], codec: int, first_offset: int, rules: ProduceRules
) -> bytes:
    codec = codec if rules.compression is None else rules.compression
    if codec == ZSTD:
        raise CorruptRecords(
            f"message.format.version needs messages of magic {rules.magic}, which"
            " can't be compressed with zstd.",
            UNSUPPORTED_COMPRESSION_TYPE,
        )
    placed = [record._replace(offset=first_offset + i) for i, record in enumerate(records)]
    return encode(placed, rules.magic, codec, compression_level=rules.compression_level)


def _produced(parts: Sequence[bytes], converted: int, rules: ProduceRules) -> Produced:
    data = parts[0] if len(parts) == 1 else b"".join(parts)
    headers = [header for header, _ in iter_stored(data)]
    for header in headers:
        check_size(header.size_bytes, rules)
    return Produced(data, headers, converted)


def _no_room(what: str, rules: ProduceRules) -> CorruptRecords:
    return CorruptRecords(
        f"message.format.version needs messages of magic {rules.magic}, which do not have {what}.",
        UNSUPPORTED_FOR_MESSAGE_FORMAT,
    )
