"""Encodes runs as record batches. section_reader.py and record_reader.py decode the batches.

A *records section* is the part of a magic 2 batch after its 61-byte header. ``run_records`` encodes
the records of one run; the bytes equal those of Kafka's own serializer. ``offset_records.py``
encodes the records of a commit.
"""

from __future__ import annotations

from offsets.offset_records import key_of, offsets_one_by_one, plain_records
from offsets.record_values import (
    GROUP_VALUE_VERSION,
    MAX_STRING_BYTES,
    group_key,
    group_value,
    offset_key_head,
    string,
)
from offsets.runs import GroupRun, GroupStateRun, OffsetRun, Run
from offsets.state_codecs import encoded
from protocol.records.varint import encode_varint

_PROLOGUE_BYTES_AT_MOST = 17
"""Upper bound of the bytes of a record outside its key and value: attributes, timestamp delta,
header count, and the lengths and the offset delta as varints of up to five bytes each."""

_DELTA_BYTES_AT_MOST = 5


def run_records(run: Run, first_delta: int, group_version: int = GROUP_VALUE_VERSION) -> bytes:
    """Returns the encoded records of one run, with offset deltas from ``first_delta`` on.

    Attributes and timestamp deltas are 0, and records have no headers. Values of classic groups
    have version ``group_version``. Raises UnwritableRun if a value does not fit Kafka's record
    formats.
    """
    if isinstance(run, OffsetRun):
        if run.metadata is None and run.expire_timestamp_ms == -1:
            return plain_records(run, first_delta)
        return offsets_one_by_one(run, first_delta)
    if isinstance(run, GroupRun):
        value = None if run.value is None else group_value(run.value, group_version)
        return _record(first_delta, group_key(run.group_id), value)
    if isinstance(run, GroupStateRun):
        pairs = encoded(run)
        return b"".join([_record(first_delta + i, *pair) for i, pair in enumerate(pairs)])
    return b"".join(
        [
            _record(first_delta + i, _offset_key(run.group_id, topic, partition), None)
            for i, (topic, partition) in enumerate(run.keys)
        ]
    )


def run_bytes_at_most(run: Run) -> int:
    """Returns an upper bound of the number of bytes of ``run_records``, without encoding the
    records.

    The bound exceeds the true size by less than 20 bytes per record. Raises UnwritableRun if a
    value does not fit Kafka's record formats, so that a request can be rejected before its run is
    accepted.
    """
    if isinstance(run, OffsetRun):
        count = len(run.partitions)
        key = key_of(run.group_id, run.topic)
        bound = count * (_PROLOGUE_BYTES_AT_MOST + key.size + 4 + 32)
        if run.metadata is not None:
            bound += sum(map(_string_bytes, run.metadata))
        return bound
    if isinstance(run, GroupRun):
        bound = _PROLOGUE_BYTES_AT_MOST + 4 + _string_bytes(run.group_id)
        value = run.value
        if value is None:
            return bound
        bound += 26 + _string_bytes(value.protocol_type)
        bound += _string_bytes(value.protocol_name or "") + _string_bytes(value.leader or "")
        for member in value.members:
            bound += 24 + len(member.subscription) + len(member.assignment)
            bound += _string_bytes(member.member_id) + _string_bytes(member.group_instance_id or "")
            bound += _string_bytes(member.client_id) + _string_bytes(member.client_host)
        return bound
    if isinstance(run, GroupStateRun):
        return len(run_records(run, 0)) + _DELTA_BYTES_AT_MOST * len(run)
    head = _PROLOGUE_BYTES_AT_MOST + 10 + _string_bytes(run.group_id)
    return sum([head + _string_bytes(topic) for topic, _ in run.keys])


def _offset_key(group_id: str, topic: str, partition: int) -> bytes:
    return offset_key_head(group_id, topic) + partition.to_bytes(4, "big", signed=True)


def _record(delta: int, key: bytes, value: bytes | None) -> bytes:
    head = b"\0\0" + encode_varint(delta) + encode_varint(len(key)) + key
    tail = b"\x01" if value is None else encode_varint(len(value)) + value
    return encode_varint(len(head) + len(tail) + 1) + head + tail + b"\0"


def _string_bytes(text: str) -> int:
    size = len(text) if text.isascii() else len(text.encode())
    return size if size <= MAX_STRING_BYTES else len(string(text))  # raises the error
