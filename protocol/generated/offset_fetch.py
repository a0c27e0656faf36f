"""OffsetFetch in straight lines. Written by ``tools/make_codecs.py``; do not edit."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from protocol.columns import (
    Packers,
    Unpackers,
    Unusual,
    compact_nullable_text,
    compact_text,
    count_prefix,
    nullable_text,
    offset_columns,
    slow,
    unsayable,
    uuid,
)
from protocol.compiled import codecs
from protocol.errors import ProtocolError
from protocol.messages.offset_fetch import API
from protocol.wire import read_varint

Topic = tuple[Any, tuple[int, ...]]
Group = tuple[str, str | None, int, list[Topic] | None]
Request = tuple[list[Group], bool]

_int32s = Unpackers("i")
_offsets_iq2xh = Packers("iq2xh")
_offsets_iqi2xh = Packers("iqi2xh")
_offsets_iqiBhx = Packers("iqiBhx")
_pack_h = struct.Struct(">h").pack
_pack_hx = struct.Struct(">hx").pack
_pack_i = struct.Struct(">i").pack
_pack_ii = struct.Struct(">ii").pack
_pack_iix = struct.Struct(">iix").pack
_pack_iq = struct.Struct(">iq").pack
_pack_iqi = struct.Struct(">iqi").pack
_unpack_h = struct.Struct(">h").unpack_from
_unpack_i = struct.Struct(">i").unpack_from
_unpack_iB = struct.Struct(">iB").unpack_from
_unpack_tB = struct.Struct(">?B").unpack_from
_unpack_uB = struct.Struct(">16sB").unpack_from


def _topics(version: int, topics: list[dict[str, Any]] | None) -> list[Any] | None:
    if topics is None:
        return None
    key = "topic_id" if version >= 10 else "name"
    return [(topic[key], tuple(topic["partition_indexes"])) for topic in topics]


def _shape(version: int, value: dict[str, Any]) -> Request:
    if version < 8:
        topics = _topics(version, value["topics"])
        return ([(value["group_id"], None, -1, topics)], value["require_stable"])
    groups: list[Group] = [
        (
            group["group_id"],
            group["member_id"],
            group["member_epoch"],
            _topics(version, group["topics"]),
        )
        for group in value["groups"]
    ]
    return (groups, value["require_stable"])


def decode_request_v0(buffer: bytes, position: int) -> Request:
    """OffsetFetch v0."""
    p = position
    try:
        (n,) = _unpack_h(buffer, p)
        p += 2
        if n < 0:
            raise Unusual
        e = p + n
        group_id = buffer[p:e].decode()
        p = e
        (n,) = _unpack_i(buffer, p)
        p += 4
        if n < 0 or n * 6 > len(buffer) - p:
            raise Unusual
        topics: list[Topic] = []
        for _ in range(n):
            (n,) = _unpack_h(buffer, p)
            p += 2
            if n < 0:
                raise Unusual
            e = p + n
            topic_name = buffer[p:e].decode()
            p = e
            (n,) = _unpack_i(buffer, p)
            p += 4
            if n < 0 or n * 4 > len(buffer) - p:
                raise Unusual
            topic_partition_indexes = _int32s[n](buffer, p)
            p += n * 4
            topics.append((topic_name, topic_partition_indexes))
        if p != len(buffer):
            raise Unusual
        return ([(group_id, None, -1, topics)], False)
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 0, buffer, position, _shape)


def decode_request_v2(buffer: bytes, position: int) -> Request:
    """OffsetFetch v2."""
    p = position
    try:
        (n,) = _unpack_h(buffer, p)
        p += 2
        if n < 0:
            raise Unusual
        e = p + n
        group_id = buffer[p:e].decode()
        p = e
        (n,) = _unpack_i(buffer, p)
        p += 4
        topics: list[Topic] | None = None
        if n != -1:
            if n < 0 or n * 6 > len(buffer) - p:
                raise Unusual
            topics = []
            for _ in range(n):
                (n,) = _unpack_h(buffer, p)
                p += 2
                if n < 0:
                    raise Unusual
                e = p + n
                topic_name = buffer[p:e].decode()
                p = e
                (n,) = _unpack_i(buffer, p)
                p += 4
                if n < 0 or n * 4 > len(buffer) - p:
                    raise Unusual
                topic_partition_indexes = _int32s[n](buffer, p)
                p += n * 4
                topics.append((topic_name, topic_partition_indexes))
        if p != len(buffer):
            raise Unusual
        return ([(group_id, None, -1, topics)], False)
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 2, buffer, position, _shape)


def decode_request_v6(buffer: bytes, position: int) -> Request:
    """OffsetFetch v6."""
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
        n -= 1
        topics: list[Topic] | None = None
        if n != -1:
            if n < 0 or n * 3 > len(buffer) - p:
                raise Unusual
            topics = []
            for _ in range(n):
                n = buffer[p]
                p += 1
                if n > 127:
                    n, p = read_varint(buffer, p - 1)
                if n == 0 or n > 32768:
                    raise Unusual
                e = p + n - 1
                topic_name = buffer[p:e].decode()
                p = e
                n = buffer[p]
                p += 1
                if n > 127:
                    n, p = read_varint(buffer, p - 1)
                n -= 1
                if n < 0 or n * 4 > len(buffer) - p:
                    raise Unusual
                topic_partition_indexes = _int32s[n](buffer, p)
                p += n * 4
                topic_tags = buffer[p]
                p += 1
                if topic_tags:
                    raise Unusual
                topics.append((topic_name, topic_partition_indexes))
        tags = buffer[p]
        p += 1
        if tags:
            raise Unusual
        if p != len(buffer):
            raise Unusual
        return ([(group_id, None, -1, topics)], False)
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 6, buffer, position, _shape)


def decode_request_v7(buffer: bytes, position: int) -> Request:
    """OffsetFetch v7."""
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
        n -= 1
        topics: list[Topic] | None = None
        if n != -1:
            if n < 0 or n * 3 > len(buffer) - p:
                raise Unusual
            topics = []
            for _ in range(n):
                n = buffer[p]
                p += 1
                if n > 127:
                    n, p = read_varint(buffer, p - 1)
                if n == 0 or n > 32768:
                    raise Unusual
                e = p + n - 1
                topic_name = buffer[p:e].decode()
                p = e
                n = buffer[p]
                p += 1
                if n > 127:
                    n, p = read_varint(buffer, p - 1)
                n -= 1
                if n < 0 or n * 4 > len(buffer) - p:
                    raise Unusual
                topic_partition_indexes = _int32s[n](buffer, p)
                p += n * 4
                topic_tags = buffer[p]
                p += 1
                if topic_tags:
                    raise Unusual
                topics.append((topic_name, topic_partition_indexes))
        require_stable, tags = _unpack_tB(buffer, p)
        p += 2
        if tags:
            raise Unusual
        if p != len(buffer):
            raise Unusual
        return ([(group_id, None, -1, topics)], require_stable)
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 7, buffer, position, _shape)


def decode_request_v8(buffer: bytes, position: int) -> Request:
    """OffsetFetch v8."""
    p = position
    try:
        n = buffer[p]
        p += 1
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        n -= 1
        if n < 0 or n * 3 > len(buffer) - p:
            raise Unusual
        groups: list[Group] = []
        for _ in range(n):
            n = buffer[p]
            p += 1
            if n > 127:
                n, p = read_varint(buffer, p - 1)
            if n == 0 or n > 32768:
                raise Unusual
            e = p + n - 1
            group_group_id = buffer[p:e].decode()
            p = e
            n = buffer[p]
            p += 1
            if n > 127:
                n, p = read_varint(buffer, p - 1)
            n -= 1
            group_topics: list[Topic] | None = None
            if n != -1:
                if n < 0 or n * 3 > len(buffer) - p:
                    raise Unusual
                group_topics = []
                for _ in range(n):
                    n = buffer[p]
                    p += 1
                    if n > 127:
                        n, p = read_varint(buffer, p - 1)
                    if n == 0 or n > 32768:
                        raise Unusual
                    e = p + n - 1
                    group_topic_name = buffer[p:e].decode()
                    p = e
                    n = buffer[p]
                    p += 1
                    if n > 127:
                        n, p = read_varint(buffer, p - 1)
                    n -= 1
                    if n < 0 or n * 4 > len(buffer) - p:
                        raise Unusual
                    group_topic_partition_indexes = _int32s[n](buffer, p)
                    p += n * 4
                    group_topic_tags = buffer[p]
                    p += 1
                    if group_topic_tags:
                        raise Unusual
                    group_topics.append((group_topic_name, group_topic_partition_indexes))
            group_tags = buffer[p]
            p += 1
            if group_tags:
                raise Unusual
            groups.append((group_group_id, None, -1, group_topics))
        require_stable, tags = _unpack_tB(buffer, p)
        p += 2
        if tags:
            raise Unusual
        if p != len(buffer):
            raise Unusual
        return (groups, require_stable)
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 8, buffer, position, _shape)


def decode_request_v9(buffer: bytes, position: int) -> Request:
    """OffsetFetch v9."""
    p = position
    try:
        n = buffer[p]
        p += 1
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        n -= 1
        if n < 0 or n * 8 > len(buffer) - p:
            raise Unusual
        groups: list[Group] = []
        for _ in range(n):
            n = buffer[p]
            p += 1
            if n > 127:
                n, p = read_varint(buffer, p - 1)
            if n == 0 or n > 32768:
                raise Unusual
            e = p + n - 1
            group_group_id = buffer[p:e].decode()
            p = e
            n = buffer[p]
            p += 1
            if n > 127:
                n, p = read_varint(buffer, p - 1)
            if n == 0:
                group_member_id = None
            elif n > 32768:
                raise Unusual
            else:
                e = p + n - 1
                group_member_id = buffer[p:e].decode()
                p = e
            group_member_epoch, n = _unpack_iB(buffer, p)
            p += 5
            if n > 127:
                n, p = read_varint(buffer, p - 1)
            n -= 1
            group_topics: list[Topic] | None = None
            if n != -1:
                if n < 0 or n * 3 > len(buffer) - p:
                    raise Unusual
                group_topics = []
                for _ in range(n):
                    n = buffer[p]
                    p += 1
                    if n > 127:
                        n, p = read_varint(buffer, p - 1)
                    if n == 0 or n > 32768:
                        raise Unusual
                    e = p + n - 1
                    group_topic_name = buffer[p:e].decode()
                    p = e
                    n = buffer[p]
                    p += 1
                    if n > 127:
                        n, p = read_varint(buffer, p - 1)
                    n -= 1
                    if n < 0 or n * 4 > len(buffer) - p:
                        raise Unusual
                    group_topic_partition_indexes = _int32s[n](buffer, p)
                    p += n * 4
                    group_topic_tags = buffer[p]
                    p += 1
                    if group_topic_tags:
                        raise Unusual
                    group_topics.append((group_topic_name, group_topic_partition_indexes))
            group_tags = buffer[p]
            p += 1
            if group_tags:
                raise Unusual
            groups.append((group_group_id, group_member_id, group_member_epoch, group_topics))
        require_stable, tags = _unpack_tB(buffer, p)
        p += 2
        if tags:
            raise Unusual
        if p != len(buffer):
            raise Unusual
        return (groups, require_stable)
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 9, buffer, position, _shape)


def decode_request_v10(buffer: bytes, position: int) -> Request:
    """OffsetFetch v10."""
    p = position
    try:
        n = buffer[p]
        p += 1
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        n -= 1
        if n < 0 or n * 8 > len(buffer) - p:
            raise Unusual
        groups: list[Group] = []
        for _ in range(n):
            n = buffer[p]
            p += 1
            if n > 127:
                n, p = read_varint(buffer, p - 1)
            if n == 0 or n > 32768:
                raise Unusual
            e = p + n - 1
            group_group_id = buffer[p:e].decode()
            p = e
            n = buffer[p]
            p += 1
            if n > 127:
                n, p = read_varint(buffer, p - 1)
            if n == 0:
                group_member_id = None
            elif n > 32768:
                raise Unusual
            else:
                e = p + n - 1
                group_member_id = buffer[p:e].decode()
                p = e
            group_member_epoch, n = _unpack_iB(buffer, p)
            p += 5
            if n > 127:
                n, p = read_varint(buffer, p - 1)
            n -= 1
            group_topics: list[Topic] | None = None
            if n != -1:
                if n < 0 or n * 18 > len(buffer) - p:
                    raise Unusual
                group_topics = []
                for _ in range(n):
                    group_topic_topic_id, n = _unpack_uB(buffer, p)
                    p += 17
                    if n > 127:
                        n, p = read_varint(buffer, p - 1)
                    n -= 1
                    if n < 0 or n * 4 > len(buffer) - p:
                        raise Unusual
                    group_topic_partition_indexes = _int32s[n](buffer, p)
                    p += n * 4
                    group_topic_tags = buffer[p]
                    p += 1
                    if group_topic_tags:
                        raise Unusual
                    group_topics.append((group_topic_topic_id, group_topic_partition_indexes))
            group_tags = buffer[p]
            p += 1
            if group_tags:
                raise Unusual
            groups.append((group_group_id, group_member_id, group_member_epoch, group_topics))
        require_stable, tags = _unpack_tB(buffer, p)
        p += 2
        if tags:
            raise Unusual
        if p != len(buffer):
            raise Unusual
        return (groups, require_stable)
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 10, buffer, position, _shape)


def encode_response_v0(
    correlation_id: int,
    throttle_time_ms: int,
    groups: Sequence[tuple[str, int, Sequence[Any]]],
) -> bytes:
    """OffsetFetch v0."""
    try:
        (group,) = groups
        _, _, topics = group
        pieces: list[bytes] = []
        pieces.append(_pack_i(len(topics)))
        for topic, partitions, offsets, leader_epochs, metadata, codes in topics:
            topic_bytes = topic.encode()
            pieces += (_pack_h(len(topic_bytes)), topic_bytes, _pack_i(len(partitions)))
            if metadata is None:
                pieces.append(offset_columns(_offsets_iq2xh, (partitions, offsets), codes, False))
            else:
                column = (codes,) * len(partitions) if isinstance(codes, int) else codes
                for partition_index, committed_offset, metadata_text, code in zip(
                    partitions, offsets, metadata, column, strict=True
                ):
                    pieces += (
                        _pack_iq(partition_index, committed_offset),
                        nullable_text(metadata_text),
                        _pack_h(code),
                    )
        body = b"".join(pieces)
        return _pack_ii(len(body) + 4, correlation_id) + body
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 0, error) from None


def encode_response_v2(
    correlation_id: int,
    throttle_time_ms: int,
    groups: Sequence[tuple[str, int, Sequence[Any]]],
) -> bytes:
    """OffsetFetch v2."""
    try:
        (group,) = groups
        _, error_code, topics = group
        pieces: list[bytes] = []
        pieces.append(_pack_i(len(topics)))
        for topic, partitions, offsets, leader_epochs, metadata, codes in topics:
            topic_bytes = topic.encode()
            pieces += (_pack_h(len(topic_bytes)), topic_bytes, _pack_i(len(partitions)))
            if metadata is None:
                pieces.append(offset_columns(_offsets_iq2xh, (partitions, offsets), codes, False))
            else:
                column = (codes,) * len(partitions) if isinstance(codes, int) else codes
                for partition_index, committed_offset, metadata_text, code in zip(
                    partitions, offsets, metadata, column, strict=True
                ):
                    pieces += (
                        _pack_iq(partition_index, committed_offset),
                        nullable_text(metadata_text),
                        _pack_h(code),
                    )
        pieces.append(_pack_h(error_code))
        body = b"".join(pieces)
        return _pack_ii(len(body) + 4, correlation_id) + body
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 2, error) from None


def encode_response_v3(
    correlation_id: int,
    throttle_time_ms: int,
    groups: Sequence[tuple[str, int, Sequence[Any]]],
) -> bytes:
    """OffsetFetch v3."""
    try:
        (group,) = groups
        _, error_code, topics = group
        pieces: list[bytes] = []
        pieces.append(_pack_ii(throttle_time_ms, len(topics)))
        for topic, partitions, offsets, leader_epochs, metadata, codes in topics:
            topic_bytes = topic.encode()
            pieces += (_pack_h(len(topic_bytes)), topic_bytes, _pack_i(len(partitions)))
            if metadata is None:
                pieces.append(offset_columns(_offsets_iq2xh, (partitions, offsets), codes, False))
            else:
                column = (codes,) * len(partitions) if isinstance(codes, int) else codes
                for partition_index, committed_offset, metadata_text, code in zip(
                    partitions, offsets, metadata, column, strict=True
                ):
                    pieces += (
                        _pack_iq(partition_index, committed_offset),
                        nullable_text(metadata_text),
                        _pack_h(code),
                    )
        pieces.append(_pack_h(error_code))
        body = b"".join(pieces)
        return _pack_ii(len(body) + 4, correlation_id) + body
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 3, error) from None


def encode_response_v5(
    correlation_id: int,
    throttle_time_ms: int,
    groups: Sequence[tuple[str, int, Sequence[Any]]],
) -> bytes:
    """OffsetFetch v5."""
    try:
        (group,) = groups
        _, error_code, topics = group
        pieces: list[bytes] = []
        pieces.append(_pack_ii(throttle_time_ms, len(topics)))
        for topic, partitions, offsets, leader_epochs, metadata, codes in topics:
            topic_bytes = topic.encode()
            pieces += (_pack_h(len(topic_bytes)), topic_bytes, _pack_i(len(partitions)))
            if metadata is None:
                pieces.append(
                    offset_columns(
                        _offsets_iqi2xh, (partitions, offsets, leader_epochs), codes, False
                    )
                )
            else:
                column = (codes,) * len(partitions) if isinstance(codes, int) else codes
                for (
                    partition_index,
                    committed_offset,
                    committed_leader_epoch,
                    metadata_text,
                    code,
                ) in zip(partitions, offsets, leader_epochs, metadata, column, strict=True):
                    pieces += (
                        _pack_iqi(partition_index, committed_offset, committed_leader_epoch),
                        nullable_text(metadata_text),
                        _pack_h(code),
                    )
        pieces.append(_pack_h(error_code))
        body = b"".join(pieces)
        return _pack_ii(len(body) + 4, correlation_id) + body
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 5, error) from None


def encode_response_v6(
    correlation_id: int,
    throttle_time_ms: int,
    groups: Sequence[tuple[str, int, Sequence[Any]]],
) -> bytes:
    """OffsetFetch v6."""
    try:
        (group,) = groups
        _, error_code, topics = group
        pieces: list[bytes] = []
        pieces += (_pack_i(throttle_time_ms), count_prefix(len(topics)))
        for topic, partitions, offsets, leader_epochs, metadata, codes in topics:
            pieces += (compact_text(topic), count_prefix(len(partitions)))
            if metadata is None:
                pieces.append(
                    offset_columns(
                        _offsets_iqiBhx, (partitions, offsets, leader_epochs), codes, True
                    )
                )
            else:
                column = (codes,) * len(partitions) if isinstance(codes, int) else codes
                for (
                    partition_index,
                    committed_offset,
                    committed_leader_epoch,
                    metadata_text,
                    code,
                ) in zip(partitions, offsets, leader_epochs, metadata, column, strict=True):
                    pieces += (
                        _pack_iqi(partition_index, committed_offset, committed_leader_epoch),
                        compact_nullable_text(metadata_text),
                        _pack_hx(code),
                    )
            pieces.append(b"\x00")
        pieces.append(_pack_hx(error_code))
        body = b"".join(pieces)
        return _pack_iix(len(body) + 5, correlation_id) + body
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 6, error) from None


def encode_response_v8(
    correlation_id: int,
    throttle_time_ms: int,
    groups: Sequence[tuple[str, int, Sequence[Any]]],
) -> bytes:
    """OffsetFetch v8."""
    try:
        pieces: list[bytes] = []
        pieces += (_pack_i(throttle_time_ms), count_prefix(len(groups)))
        for group_id, error_code, topics in groups:
            pieces += (compact_text(group_id), count_prefix(len(topics)))
            for topic, partitions, offsets, leader_epochs, metadata, codes in topics:
                pieces += (compact_text(topic), count_prefix(len(partitions)))
                if metadata is None:
                    pieces.append(
                        offset_columns(
                            _offsets_iqiBhx, (partitions, offsets, leader_epochs), codes, True
                        )
                    )
                else:
                    column = (codes,) * len(partitions) if isinstance(codes, int) else codes
                    for (
                        partition_index,
                        committed_offset,
                        committed_leader_epoch,
                        metadata_text,
                        code,
                    ) in zip(partitions, offsets, leader_epochs, metadata, column, strict=True):
                        pieces += (
                            _pack_iqi(partition_index, committed_offset, committed_leader_epoch),
                            compact_nullable_text(metadata_text),
                            _pack_hx(code),
                        )
                pieces.append(b"\x00")
            pieces.append(_pack_hx(error_code))
        pieces.append(b"\x00")
        body = b"".join(pieces)
        return _pack_iix(len(body) + 5, correlation_id) + body
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 8, error) from None


def encode_response_v10(
    correlation_id: int,
    throttle_time_ms: int,
    groups: Sequence[tuple[str, int, Sequence[Any]]],
) -> bytes:
    """OffsetFetch v10."""
    try:
        pieces: list[bytes] = []
        pieces += (_pack_i(throttle_time_ms), count_prefix(len(groups)))
        for group_id, error_code, topics in groups:
            pieces += (compact_text(group_id), count_prefix(len(topics)))
            for topic, partitions, offsets, leader_epochs, metadata, codes in topics:
                pieces += (uuid(topic), count_prefix(len(partitions)))
                if metadata is None:
                    pieces.append(
                        offset_columns(
                            _offsets_iqiBhx, (partitions, offsets, leader_epochs), codes, True
                        )
                    )
                else:
                    column = (codes,) * len(partitions) if isinstance(codes, int) else codes
                    for (
                        partition_index,
                        committed_offset,
                        committed_leader_epoch,
                        metadata_text,
                        code,
                    ) in zip(partitions, offsets, leader_epochs, metadata, column, strict=True):
                        pieces += (
                            _pack_iqi(partition_index, committed_offset, committed_leader_epoch),
                            compact_nullable_text(metadata_text),
                            _pack_hx(code),
                        )
                pieces.append(b"\x00")
            pieces.append(_pack_hx(error_code))
        pieces.append(b"\x00")
        body = b"".join(pieces)
        return _pack_iix(len(body) + 5, correlation_id) + body
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 10, error) from None


DECODE_REQUEST: Final[dict[int, Callable[[bytes, int], Request]]] = codecs(
    "decode",
    "offset_fetch",
    {
        0: decode_request_v0,
        1: decode_request_v0,
        2: decode_request_v2,
        3: decode_request_v2,
        4: decode_request_v2,
        5: decode_request_v2,
        6: decode_request_v6,
        7: decode_request_v7,
        8: decode_request_v8,
        9: decode_request_v9,
        10: decode_request_v10,
    },
)

ENCODE_RESPONSE: Final[dict[int, Callable[..., bytes]]] = codecs(
    "encode",
    "offset_fetch",
    {
        0: encode_response_v0,
        1: encode_response_v0,
        2: encode_response_v2,
        3: encode_response_v3,
        4: encode_response_v3,
        5: encode_response_v5,
        6: encode_response_v6,
        7: encode_response_v6,
        8: encode_response_v8,
        9: encode_response_v8,
        10: encode_response_v10,
    },
)
