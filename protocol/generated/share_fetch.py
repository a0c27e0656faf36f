"""ShareFetch in straight lines. Written by ``tools/make_codecs.py``; do not edit."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from protocol.columns import (
    Unpackers,
    Unusual,
    compact_nullable_text,
    compact_text,
    count_prefix,
    slow,
    unsayable,
    uuid,
)
from protocol.compiled import codecs
from protocol.errors import ProtocolError
from protocol.messages.share_fetch import API
from protocol.wire import read_varint

Acknowledgements = tuple[int, int, tuple[int, ...]]
Partition = tuple[int, list[Acknowledgements]]
Topic = tuple[bytes, list[Partition]]
Forgotten = tuple[bytes, tuple[int, ...]]
Request = tuple[
    str | None, str | None, int, int, int, int, int, int, int, bool, list[Topic], list[Forgotten]
]

_int32s = Unpackers("i")
_int8s = Unpackers("b")
_pack_h = struct.Struct(">h").pack
_pack_i = struct.Struct(">i").pack
_pack_ih = struct.Struct(">ih").pack
_pack_iix = struct.Struct(">iix").pack
_pack_qqhx = struct.Struct(">qqhx").pack
_unpack_iB = struct.Struct(">iB").unpack_from
_unpack_iiB = struct.Struct(">iiB").unpack_from
_unpack_iiiiB = struct.Struct(">iiiiB").unpack_from
_unpack_iiiiiiB = struct.Struct(">iiiiiiB").unpack_from
_unpack_iiiiiibtB = struct.Struct(">iiiiiib?B").unpack_from
_unpack_qqB = struct.Struct(">qqB").unpack_from
_unpack_uB = struct.Struct(">16sB").unpack_from


def _shape(version: int, value: dict[str, Any]) -> Request:
    topics: list[Topic] = [
        (
            topic["topic_id"],
            [
                (
                    part["partition_index"],
                    [
                        (
                            batch["first_offset"],
                            batch["last_offset"],
                            tuple(batch["acknowledge_types"]),
                        )
                        for batch in part["acknowledgement_batches"]
                    ],
                )
                for part in topic["partitions"]
            ],
        )
        for topic in value["topics"]
    ]
    return (
        value["group_id"],
        value["member_id"],
        value["share_session_epoch"],
        value["max_wait_ms"],
        value["min_bytes"],
        value["max_bytes"],
        value["max_records"] if version >= 1 else 0x7FFFFFFF,
        value["batch_size"] if version >= 1 else 0x7FFFFFFF,
        value["share_acquire_mode"],
        value["is_renew_ack"],
        topics,
        [
            (topic["topic_id"], tuple(topic["partitions"]))
            for topic in value["forgotten_topics_data"]
        ],
    )


def decode_request_v0(buffer: bytes, position: int) -> Request:
    """ShareFetch v0."""
    p = position
    try:
        n = buffer[p]
        p += 1
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        if n == 0:
            group_id = None
        elif n > 32768:
            raise Unusual
        else:
            e = p + n - 1
            group_id = buffer[p:e].decode()
            p = e
        n = buffer[p]
        p += 1
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        if n == 0:
            member_id = None
        elif n > 32768:
            raise Unusual
        else:
            e = p + n - 1
            member_id = buffer[p:e].decode()
            p = e
        share_session_epoch, max_wait_ms, min_bytes, max_bytes, n = _unpack_iiiiB(buffer, p)
        p += 17
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        n -= 1
        if n < 0 or n * 18 > len(buffer) - p:
            raise Unusual
        topics: list[Topic] = []
        for _ in range(n):
            topic_topic_id, n = _unpack_uB(buffer, p)
            p += 17
            if n > 127:
                n, p = read_varint(buffer, p - 1)
            n -= 1
            if n < 0 or n * 10 > len(buffer) - p:
                raise Unusual
            topic_partitions: list[Partition] = []
            for _ in range(n):
                topic_partition_partition_index, topic_partition_partition_max_bytes, n = (
                    _unpack_iiB(buffer, p)
                )
                p += 9
                if n > 127:
                    n, p = read_varint(buffer, p - 1)
                n -= 1
                if n < 0 or n * 18 > len(buffer) - p:
                    raise Unusual
                topic_partition_acknowledgement_batches: list[Acknowledgements] = []
                for _ in range(n):
                    (
                        topic_partition_acknowledgement_batche_first_offset,
                        topic_partition_acknowledgement_batche_last_offset,
                        n,
                    ) = _unpack_qqB(buffer, p)
                    p += 17
                    if n > 127:
                        n, p = read_varint(buffer, p - 1)
                    n -= 1
                    if n < 0 or n * 1 > len(buffer) - p:
                        raise Unusual
                    topic_partition_acknowledgement_batche_acknowledge_types = _int8s[n](buffer, p)
                    p += n * 1
                    topic_partition_acknowledgement_batche_tags = buffer[p]
                    p += 1
                    if topic_partition_acknowledgement_batche_tags:
                        raise Unusual
                    topic_partition_acknowledgement_batches.append(
                        (
                            topic_partition_acknowledgement_batche_first_offset,
                            topic_partition_acknowledgement_batche_last_offset,
                            topic_partition_acknowledgement_batche_acknowledge_types,
                        )
                    )
                topic_partition_tags = buffer[p]
                p += 1
                if topic_partition_tags:
                    raise Unusual
                topic_partitions.append(
                    (topic_partition_partition_index, topic_partition_acknowledgement_batches)
                )
            topic_tags = buffer[p]
            p += 1
            if topic_tags:
                raise Unusual
            topics.append((topic_topic_id, topic_partitions))
        n = buffer[p]
        p += 1
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        n -= 1
        if n < 0 or n * 18 > len(buffer) - p:
            raise Unusual
        forgotten_topics_data: list[Forgotten] = []
        for _ in range(n):
            forgotten_topics_data_topic_id, n = _unpack_uB(buffer, p)
            p += 17
            if n > 127:
                n, p = read_varint(buffer, p - 1)
            n -= 1
            if n < 0 or n * 4 > len(buffer) - p:
                raise Unusual
            forgotten_topics_data_partitions = _int32s[n](buffer, p)
            p += n * 4
            forgotten_topics_data_tags = buffer[p]
            p += 1
            if forgotten_topics_data_tags:
                raise Unusual
            forgotten_topics_data.append(
                (forgotten_topics_data_topic_id, forgotten_topics_data_partitions)
            )
        tags = buffer[p]
        p += 1
        if tags:
            raise Unusual
        if p != len(buffer):
            raise Unusual
        return (
            group_id,
            member_id,
            share_session_epoch,
            max_wait_ms,
            min_bytes,
            max_bytes,
            0x7FFFFFFF,
            0x7FFFFFFF,
            0,
            False,
            topics,
            forgotten_topics_data,
        )
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 0, buffer, position, _shape)


def decode_request_v1(buffer: bytes, position: int) -> Request:
    """ShareFetch v1."""
    p = position
    try:
        n = buffer[p]
        p += 1
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        if n == 0:
            group_id = None
        elif n > 32768:
            raise Unusual
        else:
            e = p + n - 1
            group_id = buffer[p:e].decode()
            p = e
        n = buffer[p]
        p += 1
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        if n == 0:
            member_id = None
        elif n > 32768:
            raise Unusual
        else:
            e = p + n - 1
            member_id = buffer[p:e].decode()
            p = e
        share_session_epoch, max_wait_ms, min_bytes, max_bytes, max_records, batch_size, n = (
            _unpack_iiiiiiB(buffer, p)
        )
        p += 25
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        n -= 1
        if n < 0 or n * 18 > len(buffer) - p:
            raise Unusual
        topics: list[Topic] = []
        for _ in range(n):
            topic_topic_id, n = _unpack_uB(buffer, p)
            p += 17
            if n > 127:
                n, p = read_varint(buffer, p - 1)
            n -= 1
            if n < 0 or n * 6 > len(buffer) - p:
                raise Unusual
            topic_partitions: list[Partition] = []
            for _ in range(n):
                topic_partition_partition_index, n = _unpack_iB(buffer, p)
                p += 5
                if n > 127:
                    n, p = read_varint(buffer, p - 1)
                n -= 1
                if n < 0 or n * 18 > len(buffer) - p:
                    raise Unusual
                topic_partition_acknowledgement_batches: list[Acknowledgements] = []
                for _ in range(n):
                    (
                        topic_partition_acknowledgement_batche_first_offset,
                        topic_partition_acknowledgement_batche_last_offset,
                        n,
                    ) = _unpack_qqB(buffer, p)
                    p += 17
                    if n > 127:
                        n, p = read_varint(buffer, p - 1)
                    n -= 1
                    if n < 0 or n * 1 > len(buffer) - p:
                        raise Unusual
                    topic_partition_acknowledgement_batche_acknowledge_types = _int8s[n](buffer, p)
                    p += n * 1
                    topic_partition_acknowledgement_batche_tags = buffer[p]
                    p += 1
                    if topic_partition_acknowledgement_batche_tags:
                        raise Unusual
                    topic_partition_acknowledgement_batches.append(
                        (
                            topic_partition_acknowledgement_batche_first_offset,
                            topic_partition_acknowledgement_batche_last_offset,
                            topic_partition_acknowledgement_batche_acknowledge_types,
                        )
                    )
                topic_partition_tags = buffer[p]
                p += 1
                if topic_partition_tags:
                    raise Unusual
                topic_partitions.append(
                    (topic_partition_partition_index, topic_partition_acknowledgement_batches)
                )
            topic_tags = buffer[p]
            p += 1
            if topic_tags:
                raise Unusual
            topics.append((topic_topic_id, topic_partitions))
        n = buffer[p]
        p += 1
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        n -= 1
        if n < 0 or n * 18 > len(buffer) - p:
            raise Unusual
        forgotten_topics_data: list[Forgotten] = []
        for _ in range(n):
            forgotten_topics_data_topic_id, n = _unpack_uB(buffer, p)
            p += 17
            if n > 127:
                n, p = read_varint(buffer, p - 1)
            n -= 1
            if n < 0 or n * 4 > len(buffer) - p:
                raise Unusual
            forgotten_topics_data_partitions = _int32s[n](buffer, p)
            p += n * 4
            forgotten_topics_data_tags = buffer[p]
            p += 1
            if forgotten_topics_data_tags:
                raise Unusual
            forgotten_topics_data.append(
                (forgotten_topics_data_topic_id, forgotten_topics_data_partitions)
            )
        tags = buffer[p]
        p += 1
        if tags:
            raise Unusual
        if p != len(buffer):
            raise Unusual
        return (
            group_id,
            member_id,
            share_session_epoch,
            max_wait_ms,
            min_bytes,
            max_bytes,
            max_records,
            batch_size,
            0,
            False,
            topics,
            forgotten_topics_data,
        )
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 1, buffer, position, _shape)


def decode_request_v2(buffer: bytes, position: int) -> Request:
    """ShareFetch v2."""
    p = position
    try:
        n = buffer[p]
        p += 1
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        if n == 0:
            group_id = None
        elif n > 32768:
            raise Unusual
        else:
            e = p + n - 1
            group_id = buffer[p:e].decode()
            p = e
        n = buffer[p]
        p += 1
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        if n == 0:
            member_id = None
        elif n > 32768:
            raise Unusual
        else:
            e = p + n - 1
            member_id = buffer[p:e].decode()
            p = e
        (
            share_session_epoch,
            max_wait_ms,
            min_bytes,
            max_bytes,
            max_records,
            batch_size,
            share_acquire_mode,
            is_renew_ack,
            n,
        ) = _unpack_iiiiiibtB(buffer, p)
        p += 27
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        n -= 1
        if n < 0 or n * 18 > len(buffer) - p:
            raise Unusual
        topics: list[Topic] = []
        for _ in range(n):
            topic_topic_id, n = _unpack_uB(buffer, p)
            p += 17
            if n > 127:
                n, p = read_varint(buffer, p - 1)
            n -= 1
            if n < 0 or n * 6 > len(buffer) - p:
                raise Unusual
            topic_partitions: list[Partition] = []
            for _ in range(n):
                topic_partition_partition_index, n = _unpack_iB(buffer, p)
                p += 5
                if n > 127:
                    n, p = read_varint(buffer, p - 1)
                n -= 1
                if n < 0 or n * 18 > len(buffer) - p:
                    raise Unusual
                topic_partition_acknowledgement_batches: list[Acknowledgements] = []
                for _ in range(n):
                    (
                        topic_partition_acknowledgement_batche_first_offset,
                        topic_partition_acknowledgement_batche_last_offset,
                        n,
                    ) = _unpack_qqB(buffer, p)
                    p += 17
                    if n > 127:
                        n, p = read_varint(buffer, p - 1)
                    n -= 1
                    if n < 0 or n * 1 > len(buffer) - p:
                        raise Unusual
                    topic_partition_acknowledgement_batche_acknowledge_types = _int8s[n](buffer, p)
                    p += n * 1
                    topic_partition_acknowledgement_batche_tags = buffer[p]
                    p += 1
                    if topic_partition_acknowledgement_batche_tags:
                        raise Unusual
                    topic_partition_acknowledgement_batches.append(
                        (
                            topic_partition_acknowledgement_batche_first_offset,
                            topic_partition_acknowledgement_batche_last_offset,
                            topic_partition_acknowledgement_batche_acknowledge_types,
                        )
                    )
                topic_partition_tags = buffer[p]
                p += 1
                if topic_partition_tags:
                    raise Unusual
                topic_partitions.append(
                    (topic_partition_partition_index, topic_partition_acknowledgement_batches)
                )
            topic_tags = buffer[p]
            p += 1
            if topic_tags:
                raise Unusual
            topics.append((topic_topic_id, topic_partitions))
        n = buffer[p]
        p += 1
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        n -= 1
        if n < 0 or n * 18 > len(buffer) - p:
            raise Unusual
        forgotten_topics_data: list[Forgotten] = []
        for _ in range(n):
            forgotten_topics_data_topic_id, n = _unpack_uB(buffer, p)
            p += 17
            if n > 127:
                n, p = read_varint(buffer, p - 1)
            n -= 1
            if n < 0 or n * 4 > len(buffer) - p:
                raise Unusual
            forgotten_topics_data_partitions = _int32s[n](buffer, p)
            p += n * 4
            forgotten_topics_data_tags = buffer[p]
            p += 1
            if forgotten_topics_data_tags:
                raise Unusual
            forgotten_topics_data.append(
                (forgotten_topics_data_topic_id, forgotten_topics_data_partitions)
            )
        tags = buffer[p]
        p += 1
        if tags:
            raise Unusual
        if p != len(buffer):
            raise Unusual
        return (
            group_id,
            member_id,
            share_session_epoch,
            max_wait_ms,
            min_bytes,
            max_bytes,
            max_records,
            batch_size,
            share_acquire_mode,
            is_renew_ack,
            topics,
            forgotten_topics_data,
        )
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 2, buffer, position, _shape)


def encode_response_v0(
    correlation_id: int,
    throttle_time_ms: int,
    error_code: int,
    error_message: str | None,
    acquisition_lock_timeout_ms: int,
    topics: Sequence[tuple[bytes, Sequence[Any]]],
    node_endpoints: Sequence[tuple[int, str, int, str | None]] = (),
) -> list[Any]:
    """ShareFetch v0."""
    try:
        pieces: list[bytes] = []
        chunks: list[Any] = []
        size = 0
        pieces += (
            _pack_ih(throttle_time_ms, error_code),
            compact_nullable_text(error_message),
            count_prefix(len(topics)),
        )
        for topic_id, partitions in topics:
            pieces += (uuid(topic_id), count_prefix(len(partitions)))
            for each in partitions:
                pieces += (
                    _pack_ih(each.partition, each.error_code),
                    compact_nullable_text(each.error_message),
                    _pack_h(each.acknowledge_error_code),
                    compact_nullable_text(each.acknowledge_error_message),
                    _pack_iix(each.leader_id, each.leader_epoch),
                    count_prefix(each.size_bytes),
                )
                if each.size_bytes:
                    part = b"".join(pieces)
                    chunks += (part, *each.records)
                    size += len(part) + each.size_bytes
                    pieces = []
                pieces.append(count_prefix(len(each.acquired)))
                for first_offset, last_offset, delivery_count in each.acquired:
                    pieces.append(_pack_qqhx(first_offset, last_offset, delivery_count))
                pieces.append(b"\x00")
            pieces.append(b"\x00")
        pieces.append(count_prefix(len(node_endpoints)))
        for node_id, host, port, rack in node_endpoints:
            pieces += (
                _pack_i(node_id),
                compact_text(host),
                _pack_i(port),
                compact_nullable_text(rack),
                b"\x00",
            )
        pieces.append(b"\x00")
        if pieces:
            part = b"".join(pieces)
            chunks.append(part)
            size += len(part)
        chunks[0] = _pack_iix(size + 5, correlation_id) + chunks[0]
        return chunks
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 0, error) from None


def encode_response_v1(
    correlation_id: int,
    throttle_time_ms: int,
    error_code: int,
    error_message: str | None,
    acquisition_lock_timeout_ms: int,
    topics: Sequence[tuple[bytes, Sequence[Any]]],
    node_endpoints: Sequence[tuple[int, str, int, str | None]] = (),
) -> list[Any]:
    """ShareFetch v1."""
    try:
        pieces: list[bytes] = []
        chunks: list[Any] = []
        size = 0
        pieces += (
            _pack_ih(throttle_time_ms, error_code),
            compact_nullable_text(error_message),
            _pack_i(acquisition_lock_timeout_ms),
            count_prefix(len(topics)),
        )
        for topic_id, partitions in topics:
            pieces += (uuid(topic_id), count_prefix(len(partitions)))
            for each in partitions:
                pieces += (
                    _pack_ih(each.partition, each.error_code),
                    compact_nullable_text(each.error_message),
                    _pack_h(each.acknowledge_error_code),
                    compact_nullable_text(each.acknowledge_error_message),
                    _pack_iix(each.leader_id, each.leader_epoch),
                    count_prefix(each.size_bytes),
                )
                if each.size_bytes:
                    part = b"".join(pieces)
                    chunks += (part, *each.records)
                    size += len(part) + each.size_bytes
                    pieces = []
                pieces.append(count_prefix(len(each.acquired)))
                for first_offset, last_offset, delivery_count in each.acquired:
                    pieces.append(_pack_qqhx(first_offset, last_offset, delivery_count))
                pieces.append(b"\x00")
            pieces.append(b"\x00")
        pieces.append(count_prefix(len(node_endpoints)))
        for node_id, host, port, rack in node_endpoints:
            pieces += (
                _pack_i(node_id),
                compact_text(host),
                _pack_i(port),
                compact_nullable_text(rack),
                b"\x00",
            )
        pieces.append(b"\x00")
        if pieces:
            part = b"".join(pieces)
            chunks.append(part)
            size += len(part)
        chunks[0] = _pack_iix(size + 5, correlation_id) + chunks[0]
        return chunks
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 1, error) from None


DECODE_REQUEST: Final[dict[int, Callable[[bytes, int], Request]]] = codecs(
    "decode",
    "share_fetch",
    {
        0: decode_request_v0,
        1: decode_request_v1,
        2: decode_request_v2,
    },
)

ENCODE_RESPONSE: Final[dict[int, Callable[..., list[Any]]]] = codecs(
    "encode",
    "share_fetch",
    {
        0: encode_response_v0,
        1: encode_response_v1,
        2: encode_response_v1,
    },
)
