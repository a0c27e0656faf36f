"""Encodes and decodes the frequent records of consumer groups, with separate code for each record
type.

consumer_codec.py encodes and decodes all records by Kafka's schemas, but takes ten times as long.
If this module raises an error of `NOT_READ`, such as ``Unusual``, consumer_codec.py decodes the
value. Such a value has a tagged field of a later Kafka version or the fields of a classic member,
or it is damaged.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from offsets.consumer_records import (
    AssignedEpochs,
    Assignment,
    CurrentAssignment,
    CurrentRecord,
    EpochRecord,
    GroupEpoch,
    MemberMetadata,
    MemberRecord,
    TargetEpoch,
    TargetEpochRecord,
    TargetRecord,
)
from protocol.errors import ProtocolError
from protocol.wire import (
    read_compact_count,
    read_compact_nullable_string,
    read_compact_string,
    read_varint,
    varint,
    write_compact_count,
    write_compact_nullable_string,
    write_compact_string,
)

_VERSION = b"\0\0"
_NO_TAGS = b"\0"
_TAG_0 = b"\1\0"
"""The start of the tagged fields if there is only tag 0: the count 1 and the tag 0. The size of the
field follows."""
_NO_CLASSIC_MEMBER = b"\1\0\1\0"
_TOPIC_ID_BYTES = 16

_epoch = struct.Struct(">2xi")
_epoch_and_tag = struct.Struct(">2xi3sq")
_current = struct.Struct(">2xiib")
_int32 = struct.Struct(">i")


class Unusual(Exception):
    """Raised if a record has a form that this module does not decode."""


NOT_READ: Final = (Unusual, ProtocolError, struct.error, IndexError, UnicodeDecodeError)


def read_key(key: bytes, has_member: bool) -> tuple[str, ...]:
    """Returns the group id in a key, and also the member id or the regex if keys of this type have
    one."""
    (size,) = struct.unpack_from(">h", key, 2)
    end = 4 + size
    group_id = key[4:end].decode()
    if size < 0:
        raise Unusual
    if not has_member:
        if end != len(key):
            raise Unusual
        return (group_id,)
    (size,) = struct.unpack_from(">h", key, end)
    start = end + 2
    if size < 0 or start + size != len(key):
        raise Unusual
    return group_id, key[start:].decode()


# ------------------------------------------------------------------------------------- writing


def _write_epoch(value: GroupEpoch) -> bytes:
    return _with_tag(value.epoch, value.metadata_hash)


def _write_target_epoch(value: TargetEpoch) -> bytes:
    return _with_tag(value.epoch, value.timestamp_ms)


def _with_tag(epoch: int, tagged: int) -> bytes:
    """Encodes an epoch, followed by the tagged field 0 with the value ``tagged``. If this value is
    0, the field is omitted."""
    if tagged:
        return _epoch_and_tag.pack(epoch, _TAG_0 + b"\x08", tagged)
    return _epoch.pack(epoch) + _NO_TAGS


def _write_target(value: Assignment) -> bytes:
    parts = [_VERSION, varint(len(value) + 1)]
    for topic_id, partitions in value.items():
        count = len(partitions)
        columns = struct.pack(f">{count}i", *partitions)
        parts += (topic_id, varint(count + 1), columns, _NO_TAGS)
    parts.append(_NO_TAGS)
    return b"".join(parts)


def _write_current(value: CurrentAssignment) -> bytes:
    parts = [_current.pack(value.epoch, value.previous_epoch, value.state)]
    for topics in (value.assigned, value.revoking):
        parts.append(varint(len(topics) + 1))
        for topic_id, epochs in topics.items():
            count = len(epochs)
            column = f">{count}i"
            head = varint(count + 1)
            parts += (topic_id, head, struct.pack(column, *epochs), _TAG_0)
            parts += (varint(len(head) + 4 * count), head, struct.pack(column, *epochs.values()))
    parts.append(_NO_TAGS)
    return b"".join(parts)


def _write_member(value: MemberMetadata) -> bytes | None:
    if value.classic is not None:
        return None
    out = bytearray(_VERSION)
    write_compact_nullable_string(out, value.instance_id)
    write_compact_nullable_string(out, value.rack_id)
    write_compact_string(out, value.client_id)
    write_compact_string(out, value.client_host)
    write_compact_count(out, len(value.subscribed_topics))
    for name in value.subscribed_topics:
        write_compact_string(out, name)
    write_compact_nullable_string(out, value.subscribed_regex)
    out += _int32.pack(value.rebalance_timeout_ms)
    write_compact_nullable_string(out, value.server_assignor)
    out += _NO_CLASSIC_MEMBER
    return bytes(out)


# ------------------------------------------------------------------------------------- reading


def _read_epoch(data: bytes) -> GroupEpoch:
    return GroupEpoch(*_read_tagged(data))


def _read_target_epoch(data: bytes) -> TargetEpoch:
    return TargetEpoch(*_read_tagged(data))


def _read_tagged(data: bytes) -> tuple[int, int]:
    if len(data) == _epoch_and_tag.size:
        epoch, head, tagged = _epoch_and_tag.unpack(data)
        if head == _TAG_0 + b"\x08":
            return epoch, tagged
    elif len(data) == _epoch.size + 1 and not data[-1]:
        return _epoch.unpack_from(data)[0], 0
    raise Unusual


def _read_target(data: bytes) -> Assignment:
    count, at = read_compact_count(data, 2, _TOPIC_ID_BYTES)
    found = {}
    for _ in range(_checked(count)):
        topic_id, partitions, at = _read_partitions(data, at)
        if data[at]:
            raise Unusual
        at += 1
        if partitions:
            found[topic_id] = tuple(sorted(partitions))
    _check_end(data, at)
    return found


def _read_current(data: bytes) -> CurrentAssignment:
    epoch, previous, state = _current.unpack_from(data)
    assigned, at = _read_assigned(data, _current.size)
    revoking, at = _read_assigned(data, at)
    _check_end(data, at)
    return CurrentAssignment(epoch, previous, state, assigned, revoking)


def _read_assigned(data: bytes, at: int) -> tuple[AssignedEpochs, int]:
    count, at = read_compact_count(data, at, _TOPIC_ID_BYTES)
    found = {}
    for _ in range(_checked(count)):
        topic_id, partitions, at = _read_partitions(data, at)
        if data[at : at + 2] != _TAG_0:
            raise Unusual
        size, at = read_varint(data, at + 2)
        end = at + size
        epochs, at = _read_column(data, at)
        if at != end or len(epochs) != len(partitions):
            raise Unusual
        if partitions:
            found[topic_id] = dict(sorted(zip(partitions, epochs, strict=True)))
    return found, at


def _read_partitions(data: bytes, at: int) -> tuple[bytes, tuple[int, ...], int]:
    topic_id = data[at : at + _TOPIC_ID_BYTES]
    partitions, at = _read_column(data, at + _TOPIC_ID_BYTES)
    return topic_id, partitions, at


def _read_column(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    count, at = read_compact_count(data, at, 4)
    return struct.unpack_from(f">{_checked(count)}i", data, at), at + 4 * count


def _read_member(data: bytes) -> MemberMetadata:
    instance_id, at = read_compact_nullable_string(data, 2)
    rack_id, at = read_compact_nullable_string(data, at)
    client_id, at = read_compact_string(data, at)
    client_host, at = read_compact_string(data, at)
    count, at = read_compact_count(data, at, 1)
    names = []
    for _ in range(_checked(count)):
        name, at = read_compact_string(data, at)
        names.append(name)
    regex, at = read_compact_nullable_string(data, at)
    (timeout_ms,) = _int32.unpack_from(data, at)
    assignor, at = read_compact_nullable_string(data, at + 4)
    if data[at:] != _NO_CLASSIC_MEMBER:
        raise Unusual
    who = instance_id, rack_id, client_id, client_host
    return MemberMetadata(*who, tuple(names), regex, timeout_ms, assignor)


def _checked(count: int) -> int:
    if count < 0:
        raise Unusual
    return count


def _check_end(data: bytes, at: int) -> None:
    if data[at:] != _NO_TAGS:
        raise Unusual


WRITERS: Final[dict[type, Callable[[Any], bytes | None]]] = {
    EpochRecord: _write_epoch,
    MemberRecord: _write_member,
    TargetEpochRecord: _write_target_epoch,
    TargetRecord: _write_target,
    CurrentRecord: _write_current,
}
"""For each type of record, the function that encodes a value together with its version. The
function returns None for a value that it can't encode."""
READERS: Final[dict[type, Callable[[bytes], Any]]] = {
    EpochRecord: _read_epoch,
    MemberRecord: _read_member,
    TargetEpochRecord: _read_target_epoch,
    TargetRecord: _read_target,
    CurrentRecord: _read_current,
}
"""For each type of record, the function that decodes a value of version 0."""
