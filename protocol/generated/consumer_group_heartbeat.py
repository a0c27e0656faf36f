"""ConsumerGroupHeartbeat in straight lines. Written by ``tools/make_codecs.py``; do not edit."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from protocol.columns import (
    Packers,
    Unpackers,
    Unusual,
    compact_nullable_text,
    count_prefix,
    slow,
    unsayable,
    uuid,
)
from protocol.compiled import codecs
from protocol.errors import ProtocolError
from protocol.messages.consumer_group_heartbeat import API
from protocol.wire import read_varint

Owned = tuple[bytes, tuple[int, ...]]
Request = tuple[
    str,
    str,
    int,
    str | None,
    str | None,
    int,
    list[str] | None,
    str | None,
    str | None,
    list[Owned] | None,
]

_int32s = Unpackers("i")
_pack_ih = struct.Struct(">ih").pack
_pack_ii = struct.Struct(">ii").pack
_pack_iix = struct.Struct(">iix").pack
_packed_is = Packers("i")
_unpack_iB = struct.Struct(">iB").unpack_from
_unpack_uB = struct.Struct(">16sB").unpack_from


def _shape(version: int, value: dict[str, Any]) -> Request:
    owned = value["topic_partitions"]
    if owned is not None:
        owned = [(each["topic_id"], tuple(each["partitions"])) for each in owned]
    return (
        value["group_id"],
        value["member_id"],
        value["member_epoch"],
        value["instance_id"],
        value["rack_id"],
        value["rebalance_timeout_ms"],
        value["subscribed_topic_names"],
        value["subscribed_topic_regex"],
        value["server_assignor"],
        owned,
    )


def decode_request_v0(buffer: bytes, position: int) -> Request:
    """ConsumerGroupHeartbeat v0."""
    p = position
    try:
        n = buffer[p]
        p += 1
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        if n == 0 or n > 32768:
            raise Unusual
        e = p + n - 1
        group_id = buffer[p:e].decode()
        p = e
        n = buffer[p]
        p += 1
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        if n == 0 or n > 32768:
            raise Unusual
        e = p + n - 1
        member_id = buffer[p:e].decode()
        p = e
        member_epoch, n = _unpack_iB(buffer, p)
        p += 5
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        if n == 0:
            instance_id = None
        elif n > 32768:
            raise Unusual
        else:
            e = p + n - 1
            instance_id = buffer[p:e].decode()
            p = e
        n = buffer[p]
        p += 1
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        if n == 0:
            rack_id = None
        elif n > 32768:
            raise Unusual
        else:
            e = p + n - 1
            rack_id = buffer[p:e].decode()
            p = e
        rebalance_timeout_ms, n = _unpack_iB(buffer, p)
        p += 5
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        n -= 1
        subscribed_topic_names: list[str] | None = None
        if n != -1:
            if n < 0 or n > len(buffer) - p:
                raise Unusual
            subscribed_topic_names = []
            for _ in range(n):
                n = buffer[p]
                p += 1
                if n > 127:
                    n, p = read_varint(buffer, p - 1)
                if n == 0 or n > 32768:
                    raise Unusual
                e = p + n - 1
                text = buffer[p:e].decode()
                p = e
                subscribed_topic_names.append(text)
        n = buffer[p]
        p += 1
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        if n == 0:
            server_assignor = None
        elif n > 32768:
            raise Unusual
        else:
            e = p + n - 1
            server_assignor = buffer[p:e].decode()
            p = e
        n = buffer[p]
        p += 1
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        n -= 1
        topic_partitions: list[Owned] | None = None
        if n != -1:
            if n < 0 or n * 18 > len(buffer) - p:
                raise Unusual
            topic_partitions = []
            for _ in range(n):
                topic_partition_topic_id, n = _unpack_uB(buffer, p)
                p += 17
                if n > 127:
                    n, p = read_varint(buffer, p - 1)
                n -= 1
                if n < 0 or n * 4 > len(buffer) - p:
                    raise Unusual
                topic_partition_partitions = _int32s[n](buffer, p)
                p += n * 4
                topic_partition_tags = buffer[p]
                p += 1
                if topic_partition_tags:
                    raise Unusual
                topic_partitions.append((topic_partition_topic_id, topic_partition_partitions))
        tags = buffer[p]
        p += 1
        if tags:
            raise Unusual
        if p != len(buffer):
            raise Unusual
        return (
            group_id,
            member_id,
            member_epoch,
            instance_id,
            rack_id,
            rebalance_timeout_ms,
            subscribed_topic_names,
            None,
            server_assignor,
            topic_partitions,
        )
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 0, buffer, position, _shape)


def decode_request_v1(buffer: bytes, position: int) -> Request:
    """ConsumerGroupHeartbeat v1."""
    p = position
    try:
        n = buffer[p]
        p += 1
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        if n == 0 or n > 32768:
            raise Unusual
        e = p + n - 1
        group_id = buffer[p:e].decode()
        p = e
        n = buffer[p]
        p += 1
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        if n == 0 or n > 32768:
            raise Unusual
        e = p + n - 1
        member_id = buffer[p:e].decode()
        p = e
        member_epoch, n = _unpack_iB(buffer, p)
        p += 5
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        if n == 0:
            instance_id = None
        elif n > 32768:
            raise Unusual
        else:
            e = p + n - 1
            instance_id = buffer[p:e].decode()
            p = e
        n = buffer[p]
        p += 1
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        if n == 0:
            rack_id = None
        elif n > 32768:
            raise Unusual
        else:
            e = p + n - 1
            rack_id = buffer[p:e].decode()
            p = e
        rebalance_timeout_ms, n = _unpack_iB(buffer, p)
        p += 5
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        n -= 1
        subscribed_topic_names: list[str] | None = None
        if n != -1:
            if n < 0 or n > len(buffer) - p:
                raise Unusual
            subscribed_topic_names = []
            for _ in range(n):
                n = buffer[p]
                p += 1
                if n > 127:
                    n, p = read_varint(buffer, p - 1)
                if n == 0 or n > 32768:
                    raise Unusual
                e = p + n - 1
                text = buffer[p:e].decode()
                p = e
                subscribed_topic_names.append(text)
        n = buffer[p]
        p += 1
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        if n == 0:
            subscribed_topic_regex = None
        elif n > 32768:
            raise Unusual
        else:
            e = p + n - 1
            subscribed_topic_regex = buffer[p:e].decode()
            p = e
        n = buffer[p]
        p += 1
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        if n == 0:
            server_assignor = None
        elif n > 32768:
            raise Unusual
        else:
            e = p + n - 1
            server_assignor = buffer[p:e].decode()
            p = e
        n = buffer[p]
        p += 1
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        n -= 1
        topic_partitions: list[Owned] | None = None
        if n != -1:
            if n < 0 or n * 18 > len(buffer) - p:
                raise Unusual
            topic_partitions = []
            for _ in range(n):
                topic_partition_topic_id, n = _unpack_uB(buffer, p)
                p += 17
                if n > 127:
                    n, p = read_varint(buffer, p - 1)
                n -= 1
                if n < 0 or n * 4 > len(buffer) - p:
                    raise Unusual
                topic_partition_partitions = _int32s[n](buffer, p)
                p += n * 4
                topic_partition_tags = buffer[p]
                p += 1
                if topic_partition_tags:
                    raise Unusual
                topic_partitions.append((topic_partition_topic_id, topic_partition_partitions))
        tags = buffer[p]
        p += 1
        if tags:
            raise Unusual
        if p != len(buffer):
            raise Unusual
        return (
            group_id,
            member_id,
            member_epoch,
            instance_id,
            rack_id,
            rebalance_timeout_ms,
            subscribed_topic_names,
            subscribed_topic_regex,
            server_assignor,
            topic_partitions,
        )
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 1, buffer, position, _shape)


def encode_response_v0(
    correlation_id: int,
    throttle_time_ms: int,
    error_code: int,
    error_message: str | None,
    member_id: str | None,
    member_epoch: int,
    heartbeat_interval_ms: int,
    assignment: Sequence[tuple[bytes, Sequence[int]]] | None,
) -> bytes:
    """ConsumerGroupHeartbeat v0."""
    try:
        pieces: list[bytes] = []
        pieces += (
            _pack_ih(throttle_time_ms, error_code),
            compact_nullable_text(error_message),
            compact_nullable_text(member_id),
            _pack_ii(member_epoch, heartbeat_interval_ms),
        )
        if assignment is None:
            pieces.append(b"\xff")
        else:
            pieces += (b"\1", count_prefix(len(assignment)))
            for topic_id, partitions in assignment:
                pieces += (
                    uuid(topic_id),
                    count_prefix(len(partitions)),
                    _packed_is[len(partitions)](*partitions),
                    b"\x00",
                )
            pieces.append(b"\x00")
        pieces.append(b"\x00")
        body = b"".join(pieces)
        return _pack_iix(len(body) + 5, correlation_id) + body
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 0, error) from None


DECODE_REQUEST: Final[dict[int, Callable[[bytes, int], Request]]] = codecs(
    "decode",
    "consumer_group_heartbeat",
    {
        0: decode_request_v0,
        1: decode_request_v1,
    },
)

ENCODE_RESPONSE: Final[dict[int, Callable[..., bytes]]] = codecs(
    "encode",
    "consumer_group_heartbeat",
    {
        0: encode_response_v0,
        1: encode_response_v0,
    },
)
