"""JoinGroup in straight lines. Written by ``tools/make_codecs.py``; do not edit."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from protocol.columns import (
    Unusual,
    compact_data,
    compact_nullable_text,
    compact_text,
    count_prefix,
    data,
    nullable_text,
    slow,
    text,
    unsayable,
)
from protocol.compiled import codecs
from protocol.errors import ProtocolError
from protocol.messages.join_group import API
from protocol.wire import read_varint

Protocol = tuple[str, bytes]
Request = tuple[str, int, int, str, str | None, str, list[Protocol], str | None]

_pack_h = struct.Struct(">h").pack
_pack_hi = struct.Struct(">hi").pack
_pack_i = struct.Struct(">i").pack
_pack_ihi = struct.Struct(">ihi").pack
_pack_ii = struct.Struct(">ii").pack
_pack_iix = struct.Struct(">iix").pack
_pack_t = struct.Struct(">?").pack
_unpack_h = struct.Struct(">h").unpack_from
_unpack_i = struct.Struct(">i").unpack_from
_unpack_ih = struct.Struct(">ih").unpack_from
_unpack_iiB = struct.Struct(">iiB").unpack_from
_unpack_iih = struct.Struct(">iih").unpack_from


def _shape(version: int, value: dict[str, Any]) -> Request:
    return (
        value["group_id"],
        value["session_timeout_ms"],
        value["rebalance_timeout_ms"],
        value["member_id"],
        value["group_instance_id"],
        value["protocol_type"],
        [(protocol["name"], protocol["metadata"]) for protocol in value["protocols"]],
        value["reason"],
    )


def decode_request_v0(buffer: bytes, position: int) -> Request:
    """JoinGroup v0."""
    p = position
    try:
        (n,) = _unpack_h(buffer, p)
        p += 2
        if n < 0:
            raise Unusual
        e = p + n
        group_id = buffer[p:e].decode()
        p = e
        session_timeout_ms, n = _unpack_ih(buffer, p)
        p += 6
        if n < 0:
            raise Unusual
        e = p + n
        member_id = buffer[p:e].decode()
        p = e
        (n,) = _unpack_h(buffer, p)
        p += 2
        if n < 0:
            raise Unusual
        e = p + n
        protocol_type = buffer[p:e].decode()
        p = e
        (n,) = _unpack_i(buffer, p)
        p += 4
        if n < 0 or n * 6 > len(buffer) - p:
            raise Unusual
        protocols: list[Protocol] = []
        for _ in range(n):
            (n,) = _unpack_h(buffer, p)
            p += 2
            if n < 0:
                raise Unusual
            e = p + n
            protocol_name = buffer[p:e].decode()
            p = e
            (n,) = _unpack_i(buffer, p)
            p += 4
            if n < 0:
                raise Unusual
            e = p + n
            protocol_metadata = buffer[p:e]
            p = e
            protocols.append((protocol_name, protocol_metadata))
        if p != len(buffer):
            raise Unusual
        return (group_id, session_timeout_ms, -1, member_id, None, protocol_type, protocols, None)
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 0, buffer, position, _shape)


def decode_request_v1(buffer: bytes, position: int) -> Request:
    """JoinGroup v1."""
    p = position
    try:
        (n,) = _unpack_h(buffer, p)
        p += 2
        if n < 0:
            raise Unusual
        e = p + n
        group_id = buffer[p:e].decode()
        p = e
        session_timeout_ms, rebalance_timeout_ms, n = _unpack_iih(buffer, p)
        p += 10
        if n < 0:
            raise Unusual
        e = p + n
        member_id = buffer[p:e].decode()
        p = e
        (n,) = _unpack_h(buffer, p)
        p += 2
        if n < 0:
            raise Unusual
        e = p + n
        protocol_type = buffer[p:e].decode()
        p = e
        (n,) = _unpack_i(buffer, p)
        p += 4
        if n < 0 or n * 6 > len(buffer) - p:
            raise Unusual
        protocols: list[Protocol] = []
        for _ in range(n):
            (n,) = _unpack_h(buffer, p)
            p += 2
            if n < 0:
                raise Unusual
            e = p + n
            protocol_name = buffer[p:e].decode()
            p = e
            (n,) = _unpack_i(buffer, p)
            p += 4
            if n < 0:
                raise Unusual
            e = p + n
            protocol_metadata = buffer[p:e]
            p = e
            protocols.append((protocol_name, protocol_metadata))
        if p != len(buffer):
            raise Unusual
        return (
            group_id,
            session_timeout_ms,
            rebalance_timeout_ms,
            member_id,
            None,
            protocol_type,
            protocols,
            None,
        )
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 1, buffer, position, _shape)


def decode_request_v5(buffer: bytes, position: int) -> Request:
    """JoinGroup v5."""
    p = position
    try:
        (n,) = _unpack_h(buffer, p)
        p += 2
        if n < 0:
            raise Unusual
        e = p + n
        group_id = buffer[p:e].decode()
        p = e
        session_timeout_ms, rebalance_timeout_ms, n = _unpack_iih(buffer, p)
        p += 10
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
        (n,) = _unpack_h(buffer, p)
        p += 2
        if n < 0:
            raise Unusual
        e = p + n
        protocol_type = buffer[p:e].decode()
        p = e
        (n,) = _unpack_i(buffer, p)
        p += 4
        if n < 0 or n * 6 > len(buffer) - p:
            raise Unusual
        protocols: list[Protocol] = []
        for _ in range(n):
            (n,) = _unpack_h(buffer, p)
            p += 2
            if n < 0:
                raise Unusual
            e = p + n
            protocol_name = buffer[p:e].decode()
            p = e
            (n,) = _unpack_i(buffer, p)
            p += 4
            if n < 0:
                raise Unusual
            e = p + n
            protocol_metadata = buffer[p:e]
            p = e
            protocols.append((protocol_name, protocol_metadata))
        if p != len(buffer):
            raise Unusual
        return (
            group_id,
            session_timeout_ms,
            rebalance_timeout_ms,
            member_id,
            group_instance_id,
            protocol_type,
            protocols,
            None,
        )
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 5, buffer, position, _shape)


def decode_request_v6(buffer: bytes, position: int) -> Request:
    """JoinGroup v6."""
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
        session_timeout_ms, rebalance_timeout_ms, n = _unpack_iiB(buffer, p)
        p += 9
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
        if n == 0 or n > 32768:
            raise Unusual
        e = p + n - 1
        protocol_type = buffer[p:e].decode()
        p = e
        n = buffer[p]
        p += 1
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        n -= 1
        if n < 0 or n * 3 > len(buffer) - p:
            raise Unusual
        protocols: list[Protocol] = []
        for _ in range(n):
            n = buffer[p]
            p += 1
            if n > 127:
                n, p = read_varint(buffer, p - 1)
            if n == 0 or n > 32768:
                raise Unusual
            e = p + n - 1
            protocol_name = buffer[p:e].decode()
            p = e
            n = buffer[p]
            p += 1
            if n > 127:
                n, p = read_varint(buffer, p - 1)
            if n == 0:
                raise Unusual
            e = p + n - 1
            protocol_metadata = buffer[p:e]
            p = e
            protocol_tags = buffer[p]
            p += 1
            if protocol_tags:
                raise Unusual
            protocols.append((protocol_name, protocol_metadata))
        tags = buffer[p]
        p += 1
        if tags:
            raise Unusual
        if p != len(buffer):
            raise Unusual
        return (
            group_id,
            session_timeout_ms,
            rebalance_timeout_ms,
            member_id,
            group_instance_id,
            protocol_type,
            protocols,
            None,
        )
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 6, buffer, position, _shape)


def decode_request_v8(buffer: bytes, position: int) -> Request:
    """JoinGroup v8."""
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
        session_timeout_ms, rebalance_timeout_ms, n = _unpack_iiB(buffer, p)
        p += 9
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
        if n == 0 or n > 32768:
            raise Unusual
        e = p + n - 1
        protocol_type = buffer[p:e].decode()
        p = e
        n = buffer[p]
        p += 1
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        n -= 1
        if n < 0 or n * 3 > len(buffer) - p:
            raise Unusual
        protocols: list[Protocol] = []
        for _ in range(n):
            n = buffer[p]
            p += 1
            if n > 127:
                n, p = read_varint(buffer, p - 1)
            if n == 0 or n > 32768:
                raise Unusual
            e = p + n - 1
            protocol_name = buffer[p:e].decode()
            p = e
            n = buffer[p]
            p += 1
            if n > 127:
                n, p = read_varint(buffer, p - 1)
            if n == 0:
                raise Unusual
            e = p + n - 1
            protocol_metadata = buffer[p:e]
            p = e
            protocol_tags = buffer[p]
            p += 1
            if protocol_tags:
                raise Unusual
            protocols.append((protocol_name, protocol_metadata))
        n = buffer[p]
        p += 1
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        if n == 0:
            reason = None
        elif n > 32768:
            raise Unusual
        else:
            e = p + n - 1
            reason = buffer[p:e].decode()
            p = e
        tags = buffer[p]
        p += 1
        if tags:
            raise Unusual
        if p != len(buffer):
            raise Unusual
        return (
            group_id,
            session_timeout_ms,
            rebalance_timeout_ms,
            member_id,
            group_instance_id,
            protocol_type,
            protocols,
            reason,
        )
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 8, buffer, position, _shape)


def encode_response_v0(
    correlation_id: int,
    throttle_time_ms: int,
    error_code: int,
    generation_id: int,
    protocol_type: str | None,
    protocol_name: str | None,
    leader: str,
    skip_assignment: bool,
    member_id: str,
    members: Sequence[tuple[str, str | None, bytes]],
) -> bytes:
    """JoinGroup v0."""
    try:
        pieces: list[bytes] = []
        leader_bytes = leader.encode()
        member_id_bytes = member_id.encode()
        pieces += (
            _pack_hi(error_code, generation_id),
            text(protocol_name),
            _pack_h(len(leader_bytes)),
            leader_bytes,
            _pack_h(len(member_id_bytes)),
            member_id_bytes,
            _pack_i(len(members)),
        )
        for joined_member_id, group_instance_id, metadata in members:
            joined_member_id_bytes = joined_member_id.encode()
            pieces += (_pack_h(len(joined_member_id_bytes)), joined_member_id_bytes, data(metadata))
        body = b"".join(pieces)
        return _pack_ii(len(body) + 4, correlation_id) + body
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 0, error) from None


def encode_response_v2(
    correlation_id: int,
    throttle_time_ms: int,
    error_code: int,
    generation_id: int,
    protocol_type: str | None,
    protocol_name: str | None,
    leader: str,
    skip_assignment: bool,
    member_id: str,
    members: Sequence[tuple[str, str | None, bytes]],
) -> bytes:
    """JoinGroup v2."""
    try:
        pieces: list[bytes] = []
        leader_bytes = leader.encode()
        member_id_bytes = member_id.encode()
        pieces += (
            _pack_ihi(throttle_time_ms, error_code, generation_id),
            text(protocol_name),
            _pack_h(len(leader_bytes)),
            leader_bytes,
            _pack_h(len(member_id_bytes)),
            member_id_bytes,
            _pack_i(len(members)),
        )
        for joined_member_id, group_instance_id, metadata in members:
            joined_member_id_bytes = joined_member_id.encode()
            pieces += (_pack_h(len(joined_member_id_bytes)), joined_member_id_bytes, data(metadata))
        body = b"".join(pieces)
        return _pack_ii(len(body) + 4, correlation_id) + body
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 2, error) from None


def encode_response_v5(
    correlation_id: int,
    throttle_time_ms: int,
    error_code: int,
    generation_id: int,
    protocol_type: str | None,
    protocol_name: str | None,
    leader: str,
    skip_assignment: bool,
    member_id: str,
    members: Sequence[tuple[str, str | None, bytes]],
) -> bytes:
    """JoinGroup v5."""
    try:
        pieces: list[bytes] = []
        leader_bytes = leader.encode()
        member_id_bytes = member_id.encode()
        pieces += (
            _pack_ihi(throttle_time_ms, error_code, generation_id),
            text(protocol_name),
            _pack_h(len(leader_bytes)),
            leader_bytes,
            _pack_h(len(member_id_bytes)),
            member_id_bytes,
            _pack_i(len(members)),
        )
        for joined_member_id, group_instance_id, metadata in members:
            joined_member_id_bytes = joined_member_id.encode()
            pieces += (
                _pack_h(len(joined_member_id_bytes)),
                joined_member_id_bytes,
                nullable_text(group_instance_id),
                data(metadata),
            )
        body = b"".join(pieces)
        return _pack_ii(len(body) + 4, correlation_id) + body
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 5, error) from None


def encode_response_v6(
    correlation_id: int,
    throttle_time_ms: int,
    error_code: int,
    generation_id: int,
    protocol_type: str | None,
    protocol_name: str | None,
    leader: str,
    skip_assignment: bool,
    member_id: str,
    members: Sequence[tuple[str, str | None, bytes]],
) -> bytes:
    """JoinGroup v6."""
    try:
        pieces: list[bytes] = []
        pieces += (
            _pack_ihi(throttle_time_ms, error_code, generation_id),
            compact_text(protocol_name),
            compact_text(leader),
            compact_text(member_id),
            count_prefix(len(members)),
        )
        for joined_member_id, group_instance_id, metadata in members:
            pieces += (
                compact_text(joined_member_id),
                compact_nullable_text(group_instance_id),
                compact_data(metadata),
                b"\x00",
            )
        pieces.append(b"\x00")
        body = b"".join(pieces)
        return _pack_iix(len(body) + 5, correlation_id) + body
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 6, error) from None


def encode_response_v7(
    correlation_id: int,
    throttle_time_ms: int,
    error_code: int,
    generation_id: int,
    protocol_type: str | None,
    protocol_name: str | None,
    leader: str,
    skip_assignment: bool,
    member_id: str,
    members: Sequence[tuple[str, str | None, bytes]],
) -> bytes:
    """JoinGroup v7."""
    try:
        pieces: list[bytes] = []
        pieces += (
            _pack_ihi(throttle_time_ms, error_code, generation_id),
            compact_nullable_text(protocol_type),
            compact_nullable_text(protocol_name),
            compact_text(leader),
            compact_text(member_id),
            count_prefix(len(members)),
        )
        for joined_member_id, group_instance_id, metadata in members:
            pieces += (
                compact_text(joined_member_id),
                compact_nullable_text(group_instance_id),
                compact_data(metadata),
                b"\x00",
            )
        pieces.append(b"\x00")
        body = b"".join(pieces)
        return _pack_iix(len(body) + 5, correlation_id) + body
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 7, error) from None


def encode_response_v9(
    correlation_id: int,
    throttle_time_ms: int,
    error_code: int,
    generation_id: int,
    protocol_type: str | None,
    protocol_name: str | None,
    leader: str,
    skip_assignment: bool,
    member_id: str,
    members: Sequence[tuple[str, str | None, bytes]],
) -> bytes:
    """JoinGroup v9."""
    try:
        pieces: list[bytes] = []
        pieces += (
            _pack_ihi(throttle_time_ms, error_code, generation_id),
            compact_nullable_text(protocol_type),
            compact_nullable_text(protocol_name),
            compact_text(leader),
            _pack_t(skip_assignment),
            compact_text(member_id),
            count_prefix(len(members)),
        )
        for joined_member_id, group_instance_id, metadata in members:
            pieces += (
                compact_text(joined_member_id),
                compact_nullable_text(group_instance_id),
                compact_data(metadata),
                b"\x00",
            )
        pieces.append(b"\x00")
        body = b"".join(pieces)
        return _pack_iix(len(body) + 5, correlation_id) + body
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 9, error) from None


DECODE_REQUEST: Final[dict[int, Callable[[bytes, int], Request]]] = codecs(
    "decode",
    "join_group",
    {
        0: decode_request_v0,
        1: decode_request_v1,
        2: decode_request_v1,
        3: decode_request_v1,
        4: decode_request_v1,
        5: decode_request_v5,
        6: decode_request_v6,
        7: decode_request_v6,
        8: decode_request_v8,
        9: decode_request_v8,
    },
)

ENCODE_RESPONSE: Final[dict[int, Callable[..., bytes]]] = codecs(
    "encode",
    "join_group",
    {
        0: encode_response_v0,
        1: encode_response_v0,
        2: encode_response_v2,
        3: encode_response_v2,
        4: encode_response_v2,
        5: encode_response_v5,
        6: encode_response_v6,
        7: encode_response_v7,
        8: encode_response_v7,
        9: encode_response_v9,
    },
)
