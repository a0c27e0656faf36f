"""SyncGroup in straight lines. Written by ``tools/make_codecs.py``; do not edit."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from protocol.columns import (
    Unusual,
    compact_data,
    compact_nullable_text,
    data,
    slow,
    unsayable,
)
from protocol.compiled import codecs
from protocol.errors import ProtocolError
from protocol.messages.sync_group import API
from protocol.wire import read_varint

Assignment = tuple[str, bytes]
Request = tuple[str, int, str, str | None, str | None, str | None, list[Assignment]]

_pack_h = struct.Struct(">h").pack
_pack_ih = struct.Struct(">ih").pack
_pack_ii = struct.Struct(">ii").pack
_pack_iix = struct.Struct(">iix").pack
_unpack_h = struct.Struct(">h").unpack_from
_unpack_i = struct.Struct(">i").unpack_from
_unpack_iB = struct.Struct(">iB").unpack_from
_unpack_ih = struct.Struct(">ih").unpack_from


def _shape(version: int, value: dict[str, Any]) -> Request:
    return (
        value["group_id"],
        value["generation_id"],
        value["member_id"],
        value["group_instance_id"],
        value["protocol_type"],
        value["protocol_name"],
        [(member["member_id"], member["assignment"]) for member in value["assignments"]],
    )


def decode_request_v0(buffer: bytes, position: int) -> Request:
    """SyncGroup v0."""
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
        (n,) = _unpack_i(buffer, p)
        p += 4
        if n < 0 or n * 6 > len(buffer) - p:
            raise Unusual
        assignments: list[Assignment] = []
        for _ in range(n):
            (n,) = _unpack_h(buffer, p)
            p += 2
            if n < 0:
                raise Unusual
            e = p + n
            assignment_member_id = buffer[p:e].decode()
            p = e
            (n,) = _unpack_i(buffer, p)
            p += 4
            if n < 0:
                raise Unusual
            e = p + n
            assignment_assignment = buffer[p:e]
            p = e
            assignments.append((assignment_member_id, assignment_assignment))
        if p != len(buffer):
            raise Unusual
        return (group_id, generation_id, member_id, None, None, None, assignments)
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 0, buffer, position, _shape)


def decode_request_v3(buffer: bytes, position: int) -> Request:
    """SyncGroup v3."""
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
        (n,) = _unpack_i(buffer, p)
        p += 4
        if n < 0 or n * 6 > len(buffer) - p:
            raise Unusual
        assignments: list[Assignment] = []
        for _ in range(n):
            (n,) = _unpack_h(buffer, p)
            p += 2
            if n < 0:
                raise Unusual
            e = p + n
            assignment_member_id = buffer[p:e].decode()
            p = e
            (n,) = _unpack_i(buffer, p)
            p += 4
            if n < 0:
                raise Unusual
            e = p + n
            assignment_assignment = buffer[p:e]
            p = e
            assignments.append((assignment_member_id, assignment_assignment))
        if p != len(buffer):
            raise Unusual
        return (group_id, generation_id, member_id, group_instance_id, None, None, assignments)
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 3, buffer, position, _shape)


def decode_request_v4(buffer: bytes, position: int) -> Request:
    """SyncGroup v4."""
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
        n = buffer[p]
        p += 1
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        n -= 1
        if n < 0 or n * 3 > len(buffer) - p:
            raise Unusual
        assignments: list[Assignment] = []
        for _ in range(n):
            n = buffer[p]
            p += 1
            if n > 127:
                n, p = read_varint(buffer, p - 1)
            if n == 0 or n > 32768:
                raise Unusual
            e = p + n - 1
            assignment_member_id = buffer[p:e].decode()
            p = e
            n = buffer[p]
            p += 1
            if n > 127:
                n, p = read_varint(buffer, p - 1)
            if n == 0:
                raise Unusual
            e = p + n - 1
            assignment_assignment = buffer[p:e]
            p = e
            assignment_tags = buffer[p]
            p += 1
            if assignment_tags:
                raise Unusual
            assignments.append((assignment_member_id, assignment_assignment))
        tags = buffer[p]
        p += 1
        if tags:
            raise Unusual
        if p != len(buffer):
            raise Unusual
        return (group_id, generation_id, member_id, group_instance_id, None, None, assignments)
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 4, buffer, position, _shape)


def decode_request_v5(buffer: bytes, position: int) -> Request:
    """SyncGroup v5."""
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
        n = buffer[p]
        p += 1
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        if n == 0:
            protocol_type = None
        elif n > 32768:
            raise Unusual
        else:
            e = p + n - 1
            protocol_type = buffer[p:e].decode()
            p = e
        n = buffer[p]
        p += 1
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        if n == 0:
            protocol_name = None
        elif n > 32768:
            raise Unusual
        else:
            e = p + n - 1
            protocol_name = buffer[p:e].decode()
            p = e
        n = buffer[p]
        p += 1
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        n -= 1
        if n < 0 or n * 3 > len(buffer) - p:
            raise Unusual
        assignments: list[Assignment] = []
        for _ in range(n):
            n = buffer[p]
            p += 1
            if n > 127:
                n, p = read_varint(buffer, p - 1)
            if n == 0 or n > 32768:
                raise Unusual
            e = p + n - 1
            assignment_member_id = buffer[p:e].decode()
            p = e
            n = buffer[p]
            p += 1
            if n > 127:
                n, p = read_varint(buffer, p - 1)
            if n == 0:
                raise Unusual
            e = p + n - 1
            assignment_assignment = buffer[p:e]
            p = e
            assignment_tags = buffer[p]
            p += 1
            if assignment_tags:
                raise Unusual
            assignments.append((assignment_member_id, assignment_assignment))
        tags = buffer[p]
        p += 1
        if tags:
            raise Unusual
        if p != len(buffer):
            raise Unusual
        return (
            group_id,
            generation_id,
            member_id,
            group_instance_id,
            protocol_type,
            protocol_name,
            assignments,
        )
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 5, buffer, position, _shape)


def encode_response_v0(
    correlation_id: int,
    throttle_time_ms: int,
    error_code: int,
    protocol_type: str | None,
    protocol_name: str | None,
    assignment: bytes,
) -> bytes:
    """SyncGroup v0."""
    try:
        body = b"".join(
            (
                _pack_h(error_code),
                data(assignment),
            )
        )
        return _pack_ii(len(body) + 4, correlation_id) + body
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 0, error) from None


def encode_response_v1(
    correlation_id: int,
    throttle_time_ms: int,
    error_code: int,
    protocol_type: str | None,
    protocol_name: str | None,
    assignment: bytes,
) -> bytes:
    """SyncGroup v1."""
    try:
        body = b"".join(
            (
                _pack_ih(throttle_time_ms, error_code),
                data(assignment),
            )
        )
        return _pack_ii(len(body) + 4, correlation_id) + body
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 1, error) from None


def encode_response_v4(
    correlation_id: int,
    throttle_time_ms: int,
    error_code: int,
    protocol_type: str | None,
    protocol_name: str | None,
    assignment: bytes,
) -> bytes:
    """SyncGroup v4."""
    try:
        body = b"".join(
            (
                _pack_ih(throttle_time_ms, error_code),
                compact_data(assignment),
                b"\x00",
            )
        )
        return _pack_iix(len(body) + 5, correlation_id) + body
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 4, error) from None


def encode_response_v5(
    correlation_id: int,
    throttle_time_ms: int,
    error_code: int,
    protocol_type: str | None,
    protocol_name: str | None,
    assignment: bytes,
) -> bytes:
    """SyncGroup v5."""
    try:
        body = b"".join(
            (
                _pack_ih(throttle_time_ms, error_code),
                compact_nullable_text(protocol_type),
                compact_nullable_text(protocol_name),
                compact_data(assignment),
                b"\x00",
            )
        )
        return _pack_iix(len(body) + 5, correlation_id) + body
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 5, error) from None


DECODE_REQUEST: Final[dict[int, Callable[[bytes, int], Request]]] = codecs(
    "decode",
    "sync_group",
    {
        0: decode_request_v0,
        1: decode_request_v0,
        2: decode_request_v0,
        3: decode_request_v3,
        4: decode_request_v4,
        5: decode_request_v5,
    },
)

ENCODE_RESPONSE: Final[dict[int, Callable[..., bytes]]] = codecs(
    "encode",
    "sync_group",
    {
        0: encode_response_v0,
        1: encode_response_v1,
        2: encode_response_v1,
        3: encode_response_v1,
        4: encode_response_v4,
        5: encode_response_v5,
    },
)
