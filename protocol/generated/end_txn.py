"""EndTxn in straight lines. Written by ``tools/make_codecs.py``; do not edit."""

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
from protocol.messages.end_txn import API
from protocol.wire import read_varint

Request = tuple[str, int, int, bool]

_pack_iiih = struct.Struct(">iiih").pack
_pack_iixihqhx = struct.Struct(">iixihqhx").pack
_pack_iixihx = struct.Struct(">iixihx").pack
_unpack_h = struct.Struct(">h").unpack_from
_unpack_qht = struct.Struct(">qh?").unpack_from
_unpack_qhtB = struct.Struct(">qh?B").unpack_from


def _shape(version: int, value: dict[str, Any]) -> Request:
    return (
        value["transactional_id"],
        value["producer_id"],
        value["producer_epoch"],
        value["committed"],
    )


def decode_request_v0(buffer: bytes, position: int) -> Request:
    """EndTxn v0."""
    p = position
    try:
        (n,) = _unpack_h(buffer, p)
        p += 2
        if n < 0:
            raise Unusual
        e = p + n
        transactional_id = buffer[p:e].decode()
        p = e
        producer_id, producer_epoch, committed = _unpack_qht(buffer, p)
        p += 11
        if p != len(buffer):
            raise Unusual
        return (transactional_id, producer_id, producer_epoch, committed)
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 0, buffer, position, _shape)


def decode_request_v3(buffer: bytes, position: int) -> Request:
    """EndTxn v3."""
    p = position
    try:
        n = buffer[p]
        p += 1
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        if n == 0 or n > 32768:
            raise Unusual
        e = p + n - 1
        transactional_id = buffer[p:e].decode()
        p = e
        producer_id, producer_epoch, committed, tags = _unpack_qhtB(buffer, p)
        p += 12
        if tags:
            raise Unusual
        if p != len(buffer):
            raise Unusual
        return (transactional_id, producer_id, producer_epoch, committed)
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 3, buffer, position, _shape)


def encode_response_v0(
    correlation_id: int,
    throttle_time_ms: int,
    error_code: int,
    producer_id: int,
    producer_epoch: int,
) -> bytes:
    """EndTxn v0."""
    try:
        return _pack_iiih(10, correlation_id, throttle_time_ms, error_code)
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 0, error) from None


def encode_response_v3(
    correlation_id: int,
    throttle_time_ms: int,
    error_code: int,
    producer_id: int,
    producer_epoch: int,
) -> bytes:
    """EndTxn v3."""
    try:
        return _pack_iixihx(12, correlation_id, throttle_time_ms, error_code)
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 3, error) from None


def encode_response_v5(
    correlation_id: int,
    throttle_time_ms: int,
    error_code: int,
    producer_id: int,
    producer_epoch: int,
) -> bytes:
    """EndTxn v5."""
    try:
        return _pack_iixihqhx(
            22, correlation_id, throttle_time_ms, error_code, producer_id, producer_epoch
        )
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 5, error) from None


DECODE_REQUEST: Final[dict[int, Callable[[bytes, int], Request]]] = codecs(
    "decode",
    "end_txn",
    {
        0: decode_request_v0,
        1: decode_request_v0,
        2: decode_request_v0,
        3: decode_request_v3,
        4: decode_request_v3,
        5: decode_request_v3,
    },
)

ENCODE_RESPONSE: Final[dict[int, Callable[..., bytes]]] = codecs(
    "encode",
    "end_txn",
    {
        0: encode_response_v0,
        1: encode_response_v0,
        2: encode_response_v0,
        3: encode_response_v3,
        4: encode_response_v3,
        5: encode_response_v5,
    },
)
