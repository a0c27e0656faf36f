"""Produce in straight lines. Written by ``tools/make_codecs.py``; do not edit."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from protocol.columns import (
    Unusual,
    compact_nullable_text,
    compact_text,
    count_prefix,
    nullable_text,
    slow,
    unsayable,
    uuid,
)
from protocol.compiled import codecs
from protocol.errors import ProtocolError
from protocol.messages.produce import API
from protocol.wire import read_varint

Partition = tuple[int, bytes | None]
Topic = tuple[Any, list[Partition]]
Request = tuple[str | None, int, int, list[Topic]]

_pack_h = struct.Struct(">h").pack
_pack_i = struct.Struct(">i").pack
_pack_ihq = struct.Struct(">ihq").pack
_pack_ihqq = struct.Struct(">ihqq").pack
_pack_ihqqq = struct.Struct(">ihqqq").pack
_pack_ihqqqi = struct.Struct(">ihqqqi").pack
_pack_ii = struct.Struct(">ii").pack
_pack_iix = struct.Struct(">iix").pack
_pack_ix = struct.Struct(">ix").pack
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


def encode_response_v0(
    correlation_id: int,
    topics: Sequence[tuple[Any, Sequence[Any]]],
    throttle_time_ms: int,
) -> bytes:
    """Produce v0."""
    try:
        pieces: list[bytes] = []
        pieces.append(_pack_i(len(topics)))
        for topic, partitions in topics:
            topic_bytes = topic.encode()
            pieces += (_pack_h(len(topic_bytes)), topic_bytes, _pack_i(len(partitions)))
            for (
                index,
                error_code,
                base_offset,
                log_append_time_ms,
                log_start_offset,
                record_errors,
                error_message,
            ) in partitions:
                pieces.append(_pack_ihq(index, error_code, base_offset))
        body = b"".join(pieces)
        return _pack_ii(len(body) + 4, correlation_id) + body
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 0, error) from None


def encode_response_v1(
    correlation_id: int,
    topics: Sequence[tuple[Any, Sequence[Any]]],
    throttle_time_ms: int,
) -> bytes:
    """Produce v1."""
    try:
        pieces: list[bytes] = []
        pieces.append(_pack_i(len(topics)))
        for topic, partitions in topics:
            topic_bytes = topic.encode()
            pieces += (_pack_h(len(topic_bytes)), topic_bytes, _pack_i(len(partitions)))
            for (
                index,
                error_code,
                base_offset,
                log_append_time_ms,
                log_start_offset,
                record_errors,
                error_message,
            ) in partitions:
                pieces.append(_pack_ihq(index, error_code, base_offset))
        pieces.append(_pack_i(throttle_time_ms))
        body = b"".join(pieces)
        return _pack_ii(len(body) + 4, correlation_id) + body
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 1, error) from None


def encode_response_v2(
    correlation_id: int,
    topics: Sequence[tuple[Any, Sequence[Any]]],
    throttle_time_ms: int,
) -> bytes:
    """Produce v2."""
    try:
        pieces: list[bytes] = []
        pieces.append(_pack_i(len(topics)))
        for topic, partitions in topics:
            topic_bytes = topic.encode()
            pieces += (_pack_h(len(topic_bytes)), topic_bytes, _pack_i(len(partitions)))
            for (
                index,
                error_code,
                base_offset,
                log_append_time_ms,
                log_start_offset,
                record_errors,
                error_message,
            ) in partitions:
                pieces.append(_pack_ihqq(index, error_code, base_offset, log_append_time_ms))
        pieces.append(_pack_i(throttle_time_ms))
        body = b"".join(pieces)
        return _pack_ii(len(body) + 4, correlation_id) + body
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 2, error) from None


def encode_response_v5(
    correlation_id: int,
    topics: Sequence[tuple[Any, Sequence[Any]]],
    throttle_time_ms: int,
) -> bytes:
    """Produce v5."""
    try:
        pieces: list[bytes] = []
        pieces.append(_pack_i(len(topics)))
        for topic, partitions in topics:
            topic_bytes = topic.encode()
            pieces += (_pack_h(len(topic_bytes)), topic_bytes, _pack_i(len(partitions)))
            for (
                index,
                error_code,
                base_offset,
                log_append_time_ms,
                log_start_offset,
                record_errors,
                error_message,
            ) in partitions:
                pieces.append(
                    _pack_ihqqq(
                        index, error_code, base_offset, log_append_time_ms, log_start_offset
                    )
                )
        pieces.append(_pack_i(throttle_time_ms))
        body = b"".join(pieces)
        return _pack_ii(len(body) + 4, correlation_id) + body
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 5, error) from None


def encode_response_v8(
    correlation_id: int,
    topics: Sequence[tuple[Any, Sequence[Any]]],
    throttle_time_ms: int,
) -> bytes:
    """Produce v8."""
    try:
        pieces: list[bytes] = []
        pieces.append(_pack_i(len(topics)))
        for topic, partitions in topics:
            topic_bytes = topic.encode()
            pieces += (_pack_h(len(topic_bytes)), topic_bytes, _pack_i(len(partitions)))
            for (
                index,
                error_code,
                base_offset,
                log_append_time_ms,
                log_start_offset,
                record_errors,
                error_message,
            ) in partitions:
                pieces.append(
                    _pack_ihqqqi(
                        index,
                        error_code,
                        base_offset,
                        log_append_time_ms,
                        log_start_offset,
                        len(record_errors),
                    )
                )
                for batch_index, batch_index_error_message in record_errors:
                    pieces += (_pack_i(batch_index), nullable_text(batch_index_error_message))
                pieces.append(nullable_text(error_message))
        pieces.append(_pack_i(throttle_time_ms))
        body = b"".join(pieces)
        return _pack_ii(len(body) + 4, correlation_id) + body
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 8, error) from None


def encode_response_v9(
    correlation_id: int,
    topics: Sequence[tuple[Any, Sequence[Any]]],
    throttle_time_ms: int,
) -> bytes:
    """Produce v9."""
    try:
        pieces: list[bytes] = []
        pieces.append(count_prefix(len(topics)))
        for topic, partitions in topics:
            pieces += (compact_text(topic), count_prefix(len(partitions)))
            for (
                index,
                error_code,
                base_offset,
                log_append_time_ms,
                log_start_offset,
                record_errors,
                error_message,
            ) in partitions:
                pieces += (
                    _pack_ihqqq(
                        index, error_code, base_offset, log_append_time_ms, log_start_offset
                    ),
                    count_prefix(len(record_errors)),
                )
                for batch_index, batch_index_error_message in record_errors:
                    pieces += (
                        _pack_i(batch_index),
                        compact_nullable_text(batch_index_error_message),
                        b"\x00",
                    )
                pieces += (compact_nullable_text(error_message), b"\x00")
            pieces.append(b"\x00")
        pieces.append(_pack_ix(throttle_time_ms))
        body = b"".join(pieces)
        return _pack_iix(len(body) + 5, correlation_id) + body
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 9, error) from None


def encode_response_v13(
    correlation_id: int,
    topics: Sequence[tuple[Any, Sequence[Any]]],
    throttle_time_ms: int,
) -> bytes:
    """Produce v13."""
    try:
        pieces: list[bytes] = []
        pieces.append(count_prefix(len(topics)))
        for topic, partitions in topics:
            pieces += (uuid(topic), count_prefix(len(partitions)))
            for (
                index,
                error_code,
                base_offset,
                log_append_time_ms,
                log_start_offset,
                record_errors,
                error_message,
            ) in partitions:
                pieces += (
                    _pack_ihqqq(
                        index, error_code, base_offset, log_append_time_ms, log_start_offset
                    ),
                    count_prefix(len(record_errors)),
                )
                for batch_index, batch_index_error_message in record_errors:
                    pieces += (
                        _pack_i(batch_index),
                        compact_nullable_text(batch_index_error_message),
                        b"\x00",
                    )
                pieces += (compact_nullable_text(error_message), b"\x00")
            pieces.append(b"\x00")
        pieces.append(_pack_ix(throttle_time_ms))
        body = b"".join(pieces)
        return _pack_iix(len(body) + 5, correlation_id) + body
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 13, error) from None


DECODE_REQUEST: Final[dict[int, Callable[[bytes, int], Request]]] = codecs(
    "decode",
    "produce",
    {
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
    },
)

ENCODE_RESPONSE: Final[dict[int, Callable[..., bytes]]] = codecs(
    "encode",
    "produce",
    {
        0: encode_response_v0,
        1: encode_response_v1,
        2: encode_response_v2,
        3: encode_response_v2,
        4: encode_response_v2,
        5: encode_response_v5,
        6: encode_response_v5,
        7: encode_response_v5,
        8: encode_response_v8,
        9: encode_response_v9,
        10: encode_response_v9,
        11: encode_response_v9,
        12: encode_response_v9,
        13: encode_response_v13,
    },
)
