"""The codec of the records of ``__transaction_state``.

A key is its version (int16, 0) and the transactional id. A value is its version (int16, 0 or 1) and
the fields of `TransactionValue`. docs/internals/transactions.md has an example. As in Kafka, a
record with another key version is skipped and counted. Another value version is an error.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Iterator

from protocol import log_records
from protocol.errors import ProtocolError
from protocol.records.corrupt import CorruptStoredRecord
from protocol.records.section import Record, encode_record_body
from protocol.records.varint import encode_varint
from protocol.wire import MAX_STRING_BYTES, varint
from transactions.calls import Partitions
from transactions.states import BY_NUMBER, State
from transactions.values import NO_EPOCH, NO_PRODUCER_ID, TransactionRun, TransactionValue

KEY_VERSION = 0
VALUE_VERSIONS = (0, 1)

_HEAD = struct.Struct(">hqhib")
"""The fields version, producer id, producer epoch, timeout and status."""
_TIMES = struct.Struct(">qq")
"""The time of the last update and the start time of the transaction."""
_PARTITIONS_AT = _HEAD.size
"""Position of the partitions in a value."""
_RECORD_BYTES_AT_MOST = 100
"""An upper bound of the size of a record without its id and partitions. It covers the lengths, the
fixed fields of key and value, and all tags."""
_TOPIC_BYTES_AT_MOST = 10
"""An upper bound of the size of a topic without its name and partitions."""


class CorruptTransactionRecord(CorruptStoredRecord):
    """Raised for a stored record that cannot be decoded."""

    def __init__(self, log_offset: int, reason: str) -> None:
        message = f"the record at offset {log_offset} can't be read: {reason}"
        super().__init__(message, log_offset, reason)


def run_records(run: TransactionRun, first_delta: int) -> bytes:
    """Returns the records section of one run. The offset deltas begin with ``first_delta``.
    Attributes and timestamp deltas are 0, and the records have no headers."""
    value = None if run.value is None else encode_value(run.value, run.version)
    body = encode_record_body(0, first_delta, encode_key(run.transactional_id), value)
    return encode_varint(len(body)) + body


def run_bytes_at_most(transactional_id: str, partitions: Partitions) -> int:
    """Returns an upper bound of the size of a record with this transactional id and these
    partitions."""
    size = _RECORD_BYTES_AT_MOST + _string_bytes(transactional_id)
    for topic, ids in partitions:
        size += _TOPIC_BYTES_AT_MOST + _string_bytes(topic) + 4 * len(ids)
    return size


def encode_key(transactional_id: str) -> bytes:
    name = transactional_id.encode()
    return b"\0\0" + len(name).to_bytes(2, "big") + name


def encode_value(value: TransactionValue, version: int) -> bytes:
    head = _HEAD.pack(
        version, value.producer_id, value.producer_epoch, value.timeout_ms, value.state.number
    )
    times = _TIMES.pack(value.last_update_ms, value.start_ms)
    if version == 0:
        return head + _partitions_v0(value) + times
    if value.state is State.EMPTY:
        parts = [head, b"\0"]
    else:
        parts = [head, varint(len(value.partitions) + 1)]
        for topic, ids in value.partitions:
            name = topic.encode()
            numbers = struct.pack(f">{len(ids)}i", *ids)
            parts += (varint(len(name) + 1), name, varint(len(ids) + 1), numbers, b"\0")
    tags = [
        tag + number.to_bytes(tag[1], "big", signed=True)
        for tag, number, default in (
            (b"\x00\x08", value.previous_producer_id, NO_PRODUCER_ID),
            (b"\x01\x08", value.next_producer_id, NO_PRODUCER_ID),
            (b"\x02\x02", value.client_rules, 0),
            (b"\x03\x02", value.next_producer_epoch, NO_EPOCH),
        )
        if number != default
    ]
    return b"".join((*parts, times, bytes((len(tags),)), *tags))


def _partitions_v0(value: TransactionValue) -> bytes:
    if value.state is State.EMPTY:
        return b"\xff\xff\xff\xff"
    parts = [len(value.partitions).to_bytes(4, "big")]
    for topic, ids in value.partitions:
        name = topic.encode()
        parts += (
            len(name).to_bytes(2, "big"),
            name,
            len(ids).to_bytes(4, "big"),
            struct.pack(f">{len(ids)}i", *ids),
        )
    return b"".join(parts)


def runs_of_records(
    records: Iterable[Record], skipped: Counter[int]
) -> Iterator[tuple[int, TransactionRun]]:
    """Yields the log offset and the run of each record. Raises CorruptTransactionRecord.

    Records with unknown key versions are omitted, and counted in ``skipped`` by version.
    """
    for record in records:
        try:
            run = _run(record, skipped)
        except (ProtocolError, ValueError) as error:
            raise CorruptTransactionRecord(record.offset, str(error)) from None
        if run is not None:
            yield record.offset, run


def _run(record: Record, skipped: Counter[int]) -> TransactionRun | None:
    key = record.key
    if key is None or len(key) < 2:
        raise ProtocolError("the key is missing, or too short to contain a version")
    key_version = int.from_bytes(key[:2], "big", signed=True)
    if key_version != KEY_VERSION:
        skipped[key_version] += 1
        return None
    size = int.from_bytes(key[2:4], "big", signed=True)
    if size != len(key) - 4:
        raise ProtocolError(f"the key has {len(key)} bytes, but claims an id of {size} bytes")
    transactional_id = str(key[4:], "utf-8")
    if record.value is None:
        return TransactionRun(transactional_id, None)
    value, version = decode_value(record.value)
    return TransactionRun(transactional_id, value, version)


def decode_value(data: bytes) -> tuple[TransactionValue, int]:
    """Returns a value and its version. Raises ProtocolError or ValueError."""
    if len(data) < 2:
        raise ProtocolError(f"the value of {len(data)} bytes is too short to contain a version")
    version = int.from_bytes(data[:2], "big", signed=True)
    if version not in VALUE_VERSIONS:
        raise ProtocolError(f"the value has version {version}, expected 0 or 1")
    value = _decode_usual(data) if version == 1 else None
    return value or _decode_by_schema(data, version), version


def _decode_usual(data: bytes) -> TransactionValue | None:
    """Decodes a value of version 1 whose lengths are all encoded in one byte, like nearly all
    values. Returns None for any other value.

    It decodes 100,000 values without partitions in 0.14 s. `_decode_by_schema` takes 0.40 s.
    """
    try:
        _, producer_id, epoch, timeout_ms, status = _HEAD.unpack_from(data)
        partitions, position = _short_partitions(data)
        updated_ms, start_ms = _TIMES.unpack_from(data, position)
        position += _TIMES.size
        previous = following = NO_PRODUCER_ID
        rules = 0
        tags = data[position]
        position += 1
        for _ in range(tags):
            tag = data[position : position + 2]
            end = position + 2 + tag[1]
            number = int.from_bytes(data[position + 2 : end], "big", signed=True)
            if tag == b"\x00\x08":
                previous = number
            elif tag == b"\x01\x08":
                following = number
            elif tag == b"\x02\x02":
                rules = number
            else:
                return None
            position = end
    except (IndexError, struct.error, ValueError):
        return None  # decoding by the schema raises the exact error
    state = BY_NUMBER.get(status)
    if position != len(data) or state is None or state is State.DEAD:
        return None
    return TransactionValue(
        producer_id,
        epoch,
        timeout_ms,
        state,
        partitions,
        updated_ms,
        start_ms,
        previous,
        following,
        rules,
    )


def _short_partitions(data: bytes) -> tuple[Partitions, int]:
    """Returns the partitions in a value of version 1, and the position after them. Decodes only
    lengths that are encoded in one byte. Raises IndexError, struct.error or ValueError if a length
    takes more than one byte or exceeds the data."""
    position = _PARTITIONS_AT + 1
    count = data[_PARTITIONS_AT]
    if count <= 1:
        return (), position
    found = []
    for _ in range(_short(count)):
        name_end = position + 1 + _short(data[position])
        name = str(data[position + 1 : name_end], "utf-8")
        ids = _short(data[name_end])
        position = name_end + 1
        found.append((name, struct.unpack_from(f">{ids}i", data, position)))
        position += 4 * ids
        if data[position]:
            raise ValueError("the partitions of a topic must not have tagged fields")
        position += 1
    return tuple(found), position


def _short(length: int) -> int:
    """Decodes a compact length of one byte. Raises ValueError for null (0) and for a longer length
    (above 0x7F)."""
    if not 0 < length < 0x80:
        raise ValueError("a length must not be null or have more than one byte")
    return length - 1


def _decode_by_schema(data: bytes, version: int) -> TransactionValue:
    fields = log_records.decode("TransactionLogValue", version, data, 2)
    status = fields["transaction_status"]
    state = BY_NUMBER.get(status)
    if state is None or state is State.DEAD:
        raise ProtocolError(f"the status is {status}, expected 0 to 5")
    partitions = fields["transaction_partitions"] or ()
    return TransactionValue(
        fields["producer_id"],
        fields["producer_epoch"],
        fields["transaction_timeout_ms"],
        state,
        tuple((each["topic"], tuple(each["partition_ids"])) for each in partitions),
        fields["transaction_last_update_timestamp_ms"],
        fields["transaction_start_timestamp_ms"],
        fields.get("previous_producer_id", NO_PRODUCER_ID),
        fields.get("next_producer_id", NO_PRODUCER_ID),
        fields.get("client_transaction_version", 0),
        fields.get("next_producer_epoch", NO_EPOCH),
    )


def _string_bytes(text: str) -> int:
    size = len(text) if text.isascii() else len(text.encode())
    assert size <= MAX_STRING_BYTES, "the string is too long for a request"
    return size
