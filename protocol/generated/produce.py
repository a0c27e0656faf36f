"""Produce in straight lines. Written by ``tools/make_codecs.py``; do not edit."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from protocol.columns import (
    Unusual,
    slow,
)
from protocol.errors import ProtocolError
from protocol.messages.produce import API
from protocol.wire import read_varint

Partition = tuple[int, bytes | None]
Topic = tuple[Any, list[Partition]]
Request = tuple[str | None, int, int, list[Topic]]

_unpack_h = struct.Struct(">h").unpack_from
_unpack_hiB = struct.Struct(">hiB").unpack_from
_unpack_hii = struct.Struct(">hii").unpack_from
_unpack_i = struct.Struct(">i").unpack_from
_unpack_iB = struct.Struct(">iB").unpack_from
_unpack_ii = struct.Struct(">ii").unpack_from
_unpack_uB = struct.Struct(">16sB").unpack_from


def _shape(version: int, value: dict[str, Any]) -> Request:
    key = "topic_id" if version >= 13 else "name"
    topics = [
        (topic[key], [(part["index"], part["records"]) for part in topic["partition_data"]])
        for topic in value["topic_data"]
    ]
    return (value["transactional_id"], value["acks"], value["timeout_ms"], topics)


def decode_request_v0(buffer: bytes, position: int) -> Request:
    """Produce v0."""
    p = position
    try:
        acks, timeout_ms, n = _unpack_hii(buffer, p)
        p += 10
        if n < 0 or n * 6 > len(buffer) - p:
            raise Unusual
        topic_data: list[Topic] = []
        for _ in range(n):
            (n,) = _unpack_h(buffer, p)
            p += 2
            if n < 0:
                raise Unusual
            e = p + n
            topic_data_name = buffer[p:e].decode()
            p = e
            (n,) = _unpack_i(buffer, p)
            p += 4
            if n < 0 or n * 8 > len(buffer) - p:
                raise Unusual
            topic_data_partition_data: list[Partition] = []
            for _ in range(n):
                topic_data_partition_data_index, n = _unpack_ii(buffer, p)
                p += 8
                if n == -1:
                    topic_data_partition_data_records = None
                elif n < -1:
                    raise Unusual
                else:
                    e = p + n
                    topic_data_partition_data_records = buffer[p:e]
                    p = e
                topic_data_partition_data.append(
                    (topic_data_partition_data_index, topic_data_partition_data_records)
                )
            topic_data.append((topic_data_name, topic_data_partition_data))
        if p != len(buffer):
            raise Unusual
        return (None, acks, timeout_ms, topic_data)
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 0, buffer, position, _shape)


def decode_request_v3(buffer: bytes, position: int) -> Request:
    """Produce v3."""
    p = position
    try:
        (n,) = _unpack_h(buffer, p)
        p += 2
        if n == -1:
            transactional_id = None
        elif n < -1:
            raise Unusual
        else:
            e = p + n
            transactional_id = buffer[p:e].decode()
            p = e
        acks, timeout_ms, n = _unpack_hii(buffer, p)
        p += 10
        if n < 0 or n * 6 > len(buffer) - p:
            raise Unusual
        topic_data: list[Topic] = []
        for _ in range(n):
            (n,) = _unpack_h(buffer, p)
            p += 2
            if n < 0:
                raise Unusual
            e = p + n
            topic_data_name = buffer[p:e].decode()
            p = e
            (n,) = _unpack_i(buffer, p)
            p += 4
            if n < 0 or n * 8 > len(buffer) - p:
                raise Unusual
            topic_data_partition_data: list[Partition] = []
            for _ in range(n):
                topic_data_partition_data_index, n = _unpack_ii(buffer, p)
                p += 8
                if n == -1:
                    topic_data_partition_data_records = None
                elif n < -1:
                    raise Unusual
                else:
                    e = p + n
                    topic_data_partition_data_records = buffer[p:e]
                    p = e
                topic_data_partition_data.append(
                    (topic_data_partition_data_index, topic_data_partition_data_records)
                )
            topic_data.append((topic_data_name, topic_data_partition_data))
        if p != len(buffer):
            raise Unusual
        return (transactional_id, acks, timeout_ms, topic_data)
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 3, buffer, position, _shape)


def decode_request_v9(buffer: bytes, position: int) -> Request:
    """Produce v9."""
    p = position
    try:
        n = buffer[p]
        p += 1
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        if n == 0:
            transactional_id = None
        elif n > 32768:
            raise Unusual
        else:
            e = p + n - 1
            transactional_id = buffer[p:e].decode()
            p = e
        acks, timeout_ms, n = _unpack_hiB(buffer, p)
        p += 7
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        n -= 1
        if n < 0 or n * 3 > len(buffer) - p:
            raise Unusual
        topic_data: list[Topic] = []
        for _ in range(n):
            n = buffer[p]
            p += 1
            if n > 127:
                n, p = read_varint(buffer, p - 1)
            if n == 0 or n > 32768:
                raise Unusual
            e = p + n - 1
            topic_data_name = buffer[p:e].decode()
            p = e
            n = buffer[p]
            p += 1
            if n > 127:
                n, p = read_varint(buffer, p - 1)
            n -= 1
            if n < 0 or n * 6 > len(buffer) - p:
                raise Unusual
            topic_data_partition_data: list[Partition] = []
            for _ in range(n):
                topic_data_partition_data_index, n = _unpack_iB(buffer, p)
                p += 5
                if n > 127:
                    n, p = read_varint(buffer, p - 1)
                if n == 0:
                    topic_data_partition_data_records = None
                else:
                    e = p + n - 1
                    topic_data_partition_data_records = buffer[p:e]
                    p = e
                topic_data_partition_data_tags = buffer[p]
                p += 1
                if topic_data_partition_data_tags:
                    raise Unusual
                topic_data_partition_data.append(
                    (topic_data_partition_data_index, topic_data_partition_data_records)
                )
            topic_data_tags = buffer[p]
            p += 1
            if topic_data_tags:
                raise Unusual
            topic_data.append((topic_data_name, topic_data_partition_data))
        tags = buffer[p]
        p += 1
        if tags:
            raise Unusual
        if p != len(buffer):
            raise Unusual
        return (transactional_id, acks, timeout_ms, topic_data)
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 9, buffer, position, _shape)


def decode_request_v13(buffer: bytes, position: int) -> Request:
    """Produce v13."""
    p = position
    try:
        n = buffer[p]
        p += 1
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        if n == 0:
            transactional_id = None
        elif n > 32768:
            raise Unusual
        else:
            e = p + n - 1
            transactional_id = buffer[p:e].decode()
            p = e
        acks, timeout_ms, n = _unpack_hiB(buffer, p)
        p += 7
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        n -= 1
        if n < 0 or n * 18 > len(buffer) - p:
            raise Unusual
        topic_data: list[Topic] = []
        for _ in range(n):
            topic_data_topic_id, n = _unpack_uB(buffer, p)
            p += 17
            if n > 127:
                n, p = read_varint(buffer, p - 1)
            n -= 1
            if n < 0 or n * 6 > len(buffer) - p:
                raise Unusual
            topic_data_partition_data: list[Partition] = []
            for _ in range(n):
                topic_data_partition_data_index, n = _unpack_iB(buffer, p)
                p += 5
                if n > 127:
                    n, p = read_varint(buffer, p - 1)
                if n == 0:
                    topic_data_partition_data_records = None
                else:
                    e = p + n - 1
                    topic_data_partition_data_records = buffer[p:e]
                    p = e
                topic_data_partition_data_tags = buffer[p]
                p += 1
                if topic_data_partition_data_tags:
                    raise Unusual
                topic_data_partition_data.append(
                    (topic_data_partition_data_index, topic_data_partition_data_records)
                )
            topic_data_tags = buffer[p]
            p += 1
            if topic_data_tags:
                raise Unusual
            topic_data.append((topic_data_topic_id, topic_data_partition_data))
        tags = buffer[p]
        p += 1
        if tags:
            raise Unusual
        if p != len(buffer):
            raise Unusual
        return (transactional_id, acks, timeout_ms, topic_data)
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 13, buffer, position, _shape)


DECODE_REQUEST: Final[dict[int, Callable[[bytes, int], Request]]] = {
    0: decode_request_v0,
    1: decode_request_v0,
    2: decode_request_v0,
    3: decode_request_v3,
    4: decode_request_v3,
    5: decode_request_v3,
    6: decode_request_v3,
    7: decode_request_v3,
    8: decode_request_v3,
    9: decode_request_v9,
    10: decode_request_v9,
    11: decode_request_v9,
    12: decode_request_v9,
    13: decode_request_v13,
}
