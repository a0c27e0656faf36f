"""Encodes and decodes the keys and values of ``__consumer_offsets``, one record at a time. The
formats are Kafka's; docs/formats/consumer-offsets.md describes them with a worked example.

The broker writes key types 1 and 2, offset values of version 3 (version 1 with an explicit expiry),
and group values of version 3. Every Kafka since 2.3 and every tool reads these versions. In a
cluster with older brokers, the broker writes group values of version 1 or 2. The broker reads all
versions from 0 to 4.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from offsets.runs import GroupMember, GroupValue
from protocol.records.corrupt import CorruptStoredRecord

KEY_OFFSET_LEGACY = 0
KEY_OFFSET = 1
KEY_GROUP = 2

OFFSET_VALUE_VERSION = 3
OFFSET_VALUE_VERSION_EXPLICIT_EXPIRY = 1
GROUP_VALUE_VERSION = 3
GROUP_VALUE_VERSION_BEFORE_INSTANCES = 2
"""The last version of group values without group.instance.id. Kafka reads this version from 2.1 on.
"""
GROUP_VALUE_VERSION_BEFORE_TIMESTAMPS = 1
"""The last version of group values that does not contain the time of the group's last state change.
Kafka 0.10.1 and later read this version."""
NEWEST_VALUE_VERSION = 4
"""The newest version of offset and group values that the broker reads. Kafka 4.x writes this
version, which is flexible."""

MAX_STRING_BYTES = 32767

_i16 = struct.Struct(">h")
_i32 = struct.Struct(">i")
_i64 = struct.Struct(">q")
_offset_v3_head = struct.Struct(">hqi")
_offset_v0_head = struct.Struct(">hq")
_two_i64 = struct.Struct(">qq")
_timeouts = struct.Struct(">ii")
_none_string = b"\xff\xff"


class StoredOffset(NamedTuple):
    """A decoded offset value. A field that is not set, or that the version does not have, is -1."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int


class Malformed(ValueError):
    """The bytes are not a valid value of their version. The caller that reads the record adds the
    record's position."""


# ------------------------------------------------------------------------------------- writing


def string(text: str | None) -> bytes:
    """Encodes a string with its int16 length. None has the length -1. Raises UnwritableRun above
    32767 bytes."""
    if text is None:
        return _none_string
    raw = text.encode()
    if len(raw) > MAX_STRING_BYTES:
        raise UnwritableRun(
            f"a string of {len(raw)} bytes, starting {text[:20]!r}, does not fit a record: "
            f"at most {MAX_STRING_BYTES} bytes can be stored"
        )
    return _i16.pack(len(raw)) + raw


def offset_key_head(group_id: str, topic: str) -> bytes:
    """Returns the key of an offset record without its last four bytes, which are the partition."""
    return _i16.pack(KEY_OFFSET) + string(group_id) + string(topic)


def group_key(group_id: str) -> bytes:
    return _i16.pack(KEY_GROUP) + string(group_id)


def offset_value(
    offset: int, leader_epoch: int, metadata: str, commit_ts_ms: int, expire_ts_ms: int
) -> bytes:
    """Encodes an offset value. With an explicit expiry it has version 1, which has no leader epoch;
    otherwise version 3."""
    if expire_ts_ms != -1:
        return (
            _offset_v0_head.pack(OFFSET_VALUE_VERSION_EXPLICIT_EXPIRY, offset)
            + string(metadata)
            + _two_i64.pack(commit_ts_ms, expire_ts_ms)
        )
    return (
        _offset_v3_head.pack(OFFSET_VALUE_VERSION, offset, leader_epoch)
        + string(metadata)
        + _i64.pack(commit_ts_ms)
    )


def group_value(value: GroupValue, version: int = GROUP_VALUE_VERSION) -> bytes:
    """Encodes a GroupMetadataValue of version 1, 2 or 3."""
    has_instances = version >= GROUP_VALUE_VERSION
    has_timestamp = version > GROUP_VALUE_VERSION_BEFORE_TIMESTAMPS
    parts = [
        _i16.pack(version),
        string(value.protocol_type),
        _i32.pack(value.generation_id),
        string(value.protocol_name),
        string(value.leader),
        _i64.pack(value.state_timestamp_ms) if has_timestamp else b"",
        _i32.pack(len(value.members)),
    ]
    for member in value.members:
        parts += (
            string(member.member_id),
            string(member.group_instance_id) if has_instances else b"",
            string(member.client_id),
            string(member.client_host),
            _timeouts.pack(member.rebalance_timeout_ms, member.session_timeout_ms),
            _i32.pack(len(member.subscription)),
            member.subscription,
            _i32.pack(len(member.assignment)),
            member.assignment,
        )
    return b"".join(parts)


# ------------------------------------------------------------------------------------- reading


class _Fields:
    """Reads the fields of a value in order. Raises Malformed if the value ends before a field."""

    __slots__ = ("data", "flexible", "position")

    def __init__(self, data: bytes, position: int, flexible: bool) -> None:
        self.data = data
        self.position = position
        self.flexible = flexible

    def int16(self) -> int:
        return int.from_bytes(self._take(2), "big", signed=True)

    def int32(self) -> int:
        return int.from_bytes(self._take(4), "big", signed=True)

    def int64(self) -> int:
        return int.from_bytes(self._take(8), "big", signed=True)

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise Malformed("a required string is null")
        return text

    def nullable_string(self) -> str | None:
        length = self._varint() - 1 if self.flexible else self.int16()
        if length == -1:
            return None
        if length > MAX_STRING_BYTES:
            raise Malformed(f"a string has {length} bytes, more than {MAX_STRING_BYTES}")
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as error:
            raise Malformed(f"a string is not UTF-8: {error}") from None

    def blob(self) -> bytes:
        return self._take(self._varint() - 1 if self.flexible else self.int32())

    def count(self) -> int:
        return self._varint() - 1 if self.flexible else self.int32()

    def tags(self) -> None:
        """Skips the tagged fields, which are optional for readers (KIP-915)."""
        if self.flexible:
            for _ in range(self._varint()):
                self._varint()
                self._take(self._varint())

    def _take(self, size: int) -> bytes:
        end = self.position + size
        if size < 0 or end > len(self.data):
            raise Malformed(
                f"a field of {size} bytes begins at byte {self.position}, but the value has only"
                f" {len(self.data)} bytes"
            )
        taken = self.data[self.position : end]
        self.position = end
        return taken

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise Malformed(f"a varint of more than five bytes ends at byte {self.position}")


def read_offset_value(data: bytes) -> StoredOffset:
    """Decodes an offset value of any version from 0 to 4. Raises Malformed for other bytes."""
    version = _version(data)
    fields = _Fields(data, 2, flexible=version >= 4)
    offset = fields.int64()
    leader_epoch = fields.int32() if version >= 3 else -1
    metadata = fields.string()
    commit_timestamp_ms = fields.int64()
    expire_timestamp_ms = fields.int64() if version == 1 else -1
    fields.tags()
    return StoredOffset(offset, leader_epoch, metadata, commit_timestamp_ms, expire_timestamp_ms)


def read_group_value(data: bytes) -> GroupValue:
    """Decodes a GroupMetadataValue of any version from 0 to 4. Raises Malformed for other bytes."""
    version = _version(data)
    fields = _Fields(data, 2, flexible=version >= 4)
    protocol_type = fields.string()
    generation_id = fields.int32()
    protocol_name = fields.nullable_string()
    leader = fields.nullable_string()
    state_timestamp_ms = fields.int64() if version >= 2 else -1
    count = fields.count()
    if count < 0:
        raise Malformed(f"the number of members is {count}, below 0")
    members = []
    for _ in range(count):
        members.append(_read_member(fields, version))
    fields.tags()
    return GroupValue(
        protocol_type, generation_id, protocol_name, leader, state_timestamp_ms, members
    )


def _read_member(fields: _Fields, version: int) -> GroupMember:
    member_id = fields.string()
    group_instance_id = fields.nullable_string() if version >= 3 else None
    client_id = fields.string()
    client_host = fields.string()
    rebalance_timeout_ms = fields.int32() if version >= 1 else -1
    session_timeout_ms = fields.int32()
    if rebalance_timeout_ms == -1:
        rebalance_timeout_ms = session_timeout_ms  # as Kafka reads version 0 (KIP-62)
    subscription = fields.blob()
    assignment = fields.blob()
    fields.tags()
    return GroupMember(
        member_id,
        group_instance_id,
        client_id,
        client_host,
        rebalance_timeout_ms,
        session_timeout_ms,
        subscription,
        assignment,
    )


def _version(data: bytes) -> int:
    if len(data) < 2:
        raise Malformed(f"a value of {len(data)} bytes is too short to contain a version")
    version: int = _i16.unpack_from(data)[0]
    if not 0 <= version <= NEWEST_VALUE_VERSION:
        raise Malformed(
            f"value version {version} is unknown; this Muster knows 0 to"
            f" {NEWEST_VALUE_VERSION}. A newer Kafka may have written the record: open the"
            " directory with a newer Muster"
        )
    return version


class CorruptRecord(CorruptStoredRecord):
    """A stored record is invalid."""

    def __init__(self, log_offset: int, reason: str) -> None:
        message = f"record at offset {log_offset} of the offsets log: {reason}"
        super().__init__(message, log_offset, reason)


class UnwritableRun(ValueError):
    """A value does not fit Kafka's record formats, such as a group id above 32767 bytes."""
