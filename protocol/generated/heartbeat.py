"""Heartbeat in straight lines. Written by ``tools/make_codecs.py``; do not edit."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from protocol.columns import (
    Unusual,
    slow,
    unsayable,
)
from protocol.compiled import codecs
from protocol.errors import ProtocolError
from protocol.messages.heartbeat import API
from protocol.wire import read_varint

Request = tuple[str, int, str, str | None]

_pack_iih = struct.Struct(">iih").pack
_pack_iiih = struct.Struct(">iiih").pack
_pack_iixihx = struct.Struct(">iixihx").pack
_unpack_h = struct.Struct(">h").unpack_from
_unpack_iB = struct.Struct(">iB").unpack_from
_unpack_ih = struct.Struct(">ih").unpack_from


def _shape(version: int, value: dict[str, Any]) -> Request:
    return (
        value["group_id"],
        value["generation_id"],
        value["member_id"],
        value["group_instance_id"],
    )


def decode_request_v0(buffer: bytes, position: int) -> Request:
    """Heartbeat v0."""
    p = position
    try:
        (n,) = _unpack_h(buffer, p)
        p += 2
        if n < 0:
            raise Unusual
        e = p + n
        group_id = buffer[p:e].decode()
        p = e
        generation_id, n = _unpack_ih(buffer, p)
        p += 6
        if n < 0:
            raise Unusual
        e = p + n
        member_id = buffer[p:e].decode()
        p = e
        if p != len(buffer):
            raise Unusual
        return (group_id, generation_id, member_id, None)
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 0, buffer, position, _shape)


def decode_request_v3(buffer: bytes, position: int) -> Request:
    """Heartbeat v3."""
    p = position
    try:
        (n,) = _unpack_h(buffer, p)
        p += 2
        if n < 0:
            raise Unusual
        e = p + n
        group_id = buffer[p:e].decode()
        p = e
        generation_id, n = _unpack_ih(buffer, p)
        p += 6
        if n < 0:
            raise Unusual
        e = p + n
        member_id = buffer[p:e].decode()
        p = e
        (n,) = _unpack_h(buffer, p)
        p += 2
        if n == -1:
            group_instance_id = None
        elif n < -1:
            raise Unusual
        else:
            e = p + n
            group_instance_id = buffer[p:e].decode()
            p = e
        if p != len(buffer):
            raise Unusual
        return (group_id, generation_id, member_id, group_instance_id)
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 3, buffer, position, _shape)


def decode_request_v4(buffer: bytes, position: int) -> Request:
    """Heartbeat v4."""
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
        generation_id, n = _unpack_iB(buffer, p)
        p += 5
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        if n == 0 or n > 32768:
            raise Unusual
        e = p + n - 1
        member_id = buffer[p:e].decode()
        p = e
        n = buffer[p]
        p += 1
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        if n == 0:
            group_instance_id = None
        elif n > 32768:
            raise Unusual
        else:
            e = p + n - 1
            group_instance_id = buffer[p:e].decode()
            p = e
        tags = buffer[p]
        p += 1
        if tags:
            raise Unusual
        if p != len(buffer):
            raise Unusual
        return (group_id, generation_id, member_id, group_instance_id)
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 4, buffer, position, _shape)


def encode_response_v0(
    correlation_id: int,
    throttle_time_ms: int,
    error_code: int,
) -> bytes:
    """Heartbeat v0."""
    try:
        return _pack_iih(6, correlation_id, error_code)
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 0, error) from None


def encode_response_v1(
    correlation_id: int,
    throttle_time_ms: int,
    error_code: int,
) -> bytes:
    """Heartbeat v1."""
    try:
        return _pack_iiih(10, correlation_id, throttle_time_ms, error_code)
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 1, error) from None


def encode_response_v4(
    correlation_id: int,
    throttle_time_ms: int,
    error_code: int,
) -> bytes:
    """Heartbeat v4."""
    try:
        return _pack_iixihx(12, correlation_id, throttle_time_ms, error_code)
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 4, error) from None


DECODE_REQUEST: Final[dict[int, Callable[[bytes, int], Request]]] = codecs(
    "decode",
    "heartbeat",
    {
        0: decode_request_v0,
        1: decode_request_v0,
        2: decode_request_v0,
        3: decode_request_v3,
        4: decode_request_v4,
    },
)

ENCODE_RESPONSE: Final[dict[int, Callable[..., bytes]]] = codecs(
    "encode",
    "heartbeat",
    {
        0: encode_response_v0,
        1: encode_response_v1,
        2: encode_response_v1,
        3: encode_response_v1,
        4: encode_response_v4,
    },
)
