"""TxnOffsetCommit in straight lines. Written by ``tools/make_codecs.py``; do not edit."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from protocol.columns import (
    Packers,
    Unpackers,
    Unusual,
    code_columns,
    compact_text,
    count_prefix,
    slow,
    unsayable,
    uuid,
)
from protocol.compiled import codecs
from protocol.errors import ProtocolError
from protocol.messages.txn_offset_commit import API
from protocol.wire import read_varint

Column = tuple[int, ...]
Topic = tuple[Any, Column, Column, Column, tuple[str | None, ...] | None, None]
Request = tuple[str, str, int, int, int, str, str | None, list[Topic]]

_codes = Packers("ih")
_codesx = Packers("ihx")
_pack_h = struct.Struct(">h").pack
_pack_i = struct.Struct(">i").pack
_pack_ii = struct.Struct(">ii").pack
_pack_iix = struct.Struct(">iix").pack
_partitions_iq = Unpackers("iq2x")
_partitions_iqi = Unpackers("iqi2x")
_unpack_h = struct.Struct(">h").unpack_from
_unpack_i = struct.Struct(">i").unpack_from
_unpack_iqH = struct.Struct(">iqH").unpack_from
_unpack_iqh = struct.Struct(">iqh").unpack_from
_unpack_iqiB = struct.Struct(">iqiB").unpack_from
_unpack_iqiH = struct.Struct(">iqiH").unpack_from
_unpack_iqih = struct.Struct(">iqih").unpack_from
_unpack_qhi = struct.Struct(">qhi").unpack_from
_unpack_qhiB = struct.Struct(">qhiB").unpack_from
_unpack_uB = struct.Struct(">16sB").unpack_from
_zeros = Packers("i2x")
_zerosx = Packers("i2xx")


def _shape(version: int, value: dict[str, Any]) -> Request:
    topics: list[Topic] = []
    for topic in value["topics"]:
        parts = topic["partitions"]
        metadata = tuple([part["committed_metadata"] for part in parts])
        topics.append(
            (
                topic["topic_id" if version >= 6 else "name"],
                tuple([part["partition_index"] for part in parts]),
                tuple([part["committed_offset"] for part in parts]),
                tuple([part["committed_leader_epoch"] for part in parts]),
                metadata if any(metadata) else None,
                None,
            )
        )
    return (
        value["transactional_id"],
        value["group_id"],
        value["producer_id"],
        value["producer_epoch"],
        value["generation_id"],
        value["member_id"],
        value["group_instance_id"],
        topics,
    )


def decode_request_v0(buffer: bytes, position: int) -> Request:
    """TxnOffsetCommit v0."""
    p = position
    try:
        (n,) = _unpack_h(buffer, p)
        p += 2
        if n < 0:
            raise Unusual
        e = p + n
        transactional_id = buffer[p:e].decode()
        p = e
        (n,) = _unpack_h(buffer, p)
        p += 2
        if n < 0:
            raise Unusual
        e = p + n
        group_id = buffer[p:e].decode()
        p = e
        producer_id, producer_epoch, n = _unpack_qhi(buffer, p)
        p += 14
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
            if n < 0 or n * 14 > len(buffer) - p:
                raise Unusual
            count = n
            e = p + n * 14
            flat = None
            if n == 1:
                lone = _unpack_iqH(buffer, p)
                if lone[2] in (0, 65535):
                    flat = lone[:2]
            elif n:
                mark = buffer[p + 12]
                if (
                    mark in (0, 255)
                    and buffer[p + 12 : e : 14].count(mark) == n
                    and buffer[p + 13 : e : 14].count(mark) == n
                ):
                    flat = _partitions_iq[n](buffer, p)
            if flat is not None:
                partitions = flat[0::2]
                offsets = flat[1::2]
                metadata = None
                p = e
            else:
                partitions_list = []
                offsets_list = []
                metadata_list = []
                for _ in range(count):
                    partition_index, committed_offset, n = _unpack_iqh(buffer, p)
                    p += 14
                    if n == -1:
                        committed_metadata = None
                    elif n < -1:
                        raise Unusual
                    else:
                        e = p + n
                        committed_metadata = buffer[p:e].decode()
                        p = e
                    partitions_list.append(partition_index)
                    offsets_list.append(committed_offset)
                    metadata_list.append(committed_metadata)
                partitions = tuple(partitions_list)
                offsets = tuple(offsets_list)
                metadata = tuple(metadata_list) if any(metadata_list) else None
            leader_epochs = (-1,) * count
            timestamps = None
            topics.append((topic_name, partitions, offsets, leader_epochs, metadata, None))
        if p != len(buffer):
            raise Unusual
        return (transactional_id, group_id, producer_id, producer_epoch, -1, "", None, topics)
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 0, buffer, position, _shape)


def decode_request_v2(buffer: bytes, position: int) -> Request:
    """TxnOffsetCommit v2."""
    p = position
    try:
        (n,) = _unpack_h(buffer, p)
        p += 2
        if n < 0:
            raise Unusual
        e = p + n
        transactional_id = buffer[p:e].decode()
        p = e
        (n,) = _unpack_h(buffer, p)
        p += 2
        if n < 0:
            raise Unusual
        e = p + n
        group_id = buffer[p:e].decode()
        p = e
        producer_id, producer_epoch, n = _unpack_qhi(buffer, p)
        p += 14
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
            if n < 0 or n * 18 > len(buffer) - p:
                raise Unusual
            count = n
            e = p + n * 18
            flat = None
            if n == 1:
                lone = _unpack_iqiH(buffer, p)
                if lone[3] in (0, 65535):
                    flat = lone[:3]
            elif n:
                mark = buffer[p + 16]
                if (
                    mark in (0, 255)
                    and buffer[p + 16 : e : 18].count(mark) == n
                    and buffer[p + 17 : e : 18].count(mark) == n
                ):
                    flat = _partitions_iqi[n](buffer, p)
            if flat is not None:
                partitions = flat[0::3]
                offsets = flat[1::3]
                leader_epochs = flat[2::3]
                metadata = None
                p = e
            else:
                partitions_list = []
                offsets_list = []
                leader_epochs_list = []
                metadata_list = []
                for _ in range(count):
                    partition_index, committed_offset, committed_leader_epoch, n = _unpack_iqih(
                        buffer, p
                    )
                    p += 18
                    if n == -1:
                        committed_metadata = None
                    elif n < -1:
                        raise Unusual
                    else:
                        e = p + n
                        committed_metadata = buffer[p:e].decode()
                        p = e
                    partitions_list.append(partition_index)
                    offsets_list.append(committed_offset)
                    leader_epochs_list.append(committed_leader_epoch)
                    metadata_list.append(committed_metadata)
                partitions = tuple(partitions_list)
                offsets = tuple(offsets_list)
                leader_epochs = tuple(leader_epochs_list)
                metadata = tuple(metadata_list) if any(metadata_list) else None
            timestamps = None
            topics.append((topic_name, partitions, offsets, leader_epochs, metadata, None))
        if p != len(buffer):
            raise Unusual
        return (transactional_id, group_id, producer_id, producer_epoch, -1, "", None, topics)
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 2, buffer, position, _shape)


def decode_request_v3(buffer: bytes, position: int) -> Request:
    """TxnOffsetCommit v3."""
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
        n = buffer[p]
        p += 1
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        if n == 0 or n > 32768:
            raise Unusual
        e = p + n - 1
        group_id = buffer[p:e].decode()
        p = e
        producer_id, producer_epoch, generation_id, n = _unpack_qhiB(buffer, p)
        p += 15
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
        topics: list[Topic] = []
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
            if n < 0 or n * 18 > len(buffer) - p:
                raise Unusual
            count = n
            e = p + n * 18
            flat = None
            if n == 1:
                lone = _unpack_iqiH(buffer, p)
                if lone[3] in (0, 256):
                    flat = lone[:3]
            elif n:
                mark = buffer[p + 16]
                if (
                    mark in (0, 1)
                    and buffer[p + 16 : e : 18].count(mark) == n
                    and buffer[p + 17 : e : 18].count(0) == n
                ):
                    flat = _partitions_iqi[n](buffer, p)
            if flat is not None:
                partitions = flat[0::3]
                offsets = flat[1::3]
                leader_epochs = flat[2::3]
                metadata = None
                p = e
            else:
                partitions_list = []
                offsets_list = []
                leader_epochs_list = []
                metadata_list = []
                for _ in range(count):
                    partition_index, committed_offset, committed_leader_epoch, n = _unpack_iqiB(
                        buffer, p
                    )
                    p += 17
                    if n > 127:
                        n, p = read_varint(buffer, p - 1)
                    if n == 0:
                        committed_metadata = None
                    elif n > 32768:
                        raise Unusual
                    else:
                        e = p + n - 1
                        committed_metadata = buffer[p:e].decode()
                        p = e
                    tags = buffer[p]
                    p += 1
                    if tags:
                        raise Unusual
                    partitions_list.append(partition_index)
                    offsets_list.append(committed_offset)
                    leader_epochs_list.append(committed_leader_epoch)
                    metadata_list.append(committed_metadata)
                partitions = tuple(partitions_list)
                offsets = tuple(offsets_list)
                leader_epochs = tuple(leader_epochs_list)
                metadata = tuple(metadata_list) if any(metadata_list) else None
            timestamps = None
            topic_tags = buffer[p]
            p += 1
            if topic_tags:
                raise Unusual
            topics.append((topic_name, partitions, offsets, leader_epochs, metadata, None))
        tags = buffer[p]
        p += 1
        if tags:
            raise Unusual
        if p != len(buffer):
            raise Unusual
        return (
            transactional_id,
            group_id,
            producer_id,
            producer_epoch,
            generation_id,
            member_id,
            group_instance_id,
            topics,
        )
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 3, buffer, position, _shape)


def decode_request_v6(buffer: bytes, position: int) -> Request:
    """TxnOffsetCommit v6."""
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
        n = buffer[p]
        p += 1
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        if n == 0 or n > 32768:
            raise Unusual
        e = p + n - 1
        group_id = buffer[p:e].decode()
        p = e
        producer_id, producer_epoch, generation_id, n = _unpack_qhiB(buffer, p)
        p += 15
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
        if n < 0 or n * 18 > len(buffer) - p:
            raise Unusual
        topics: list[Topic] = []
        for _ in range(n):
            topic_topic_id, n = _unpack_uB(buffer, p)
            p += 17
            if n > 127:
                n, p = read_varint(buffer, p - 1)
            n -= 1
            if n < 0 or n * 18 > len(buffer) - p:
                raise Unusual
            count = n
            e = p + n * 18
            flat = None
            if n == 1:
                lone = _unpack_iqiH(buffer, p)
                if lone[3] in (0, 256):
                    flat = lone[:3]
            elif n:
                mark = buffer[p + 16]
                if (
                    mark in (0, 1)
                    and buffer[p + 16 : e : 18].count(mark) == n
                    and buffer[p + 17 : e : 18].count(0) == n
                ):
                    flat = _partitions_iqi[n](buffer, p)
            if flat is not None:
                partitions = flat[0::3]
                offsets = flat[1::3]
                leader_epochs = flat[2::3]
                metadata = None
                p = e
            else:
                partitions_list = []
                offsets_list = []
                leader_epochs_list = []
                metadata_list = []
                for _ in range(count):
                    partition_index, committed_offset, committed_leader_epoch, n = _unpack_iqiB(
                        buffer, p
                    )
                    p += 17
                    if n > 127:
                        n, p = read_varint(buffer, p - 1)
                    if n == 0:
                        committed_metadata = None
                    elif n > 32768:
                        raise Unusual
                    else:
                        e = p + n - 1
                        committed_metadata = buffer[p:e].decode()
                        p = e
                    tags = buffer[p]
                    p += 1
                    if tags:
                        raise Unusual
                    partitions_list.append(partition_index)
                    offsets_list.append(committed_offset)
                    leader_epochs_list.append(committed_leader_epoch)
                    metadata_list.append(committed_metadata)
                partitions = tuple(partitions_list)
                offsets = tuple(offsets_list)
                leader_epochs = tuple(leader_epochs_list)
                metadata = tuple(metadata_list) if any(metadata_list) else None
            timestamps = None
            topic_tags = buffer[p]
            p += 1
            if topic_tags:
                raise Unusual
            topics.append((topic_topic_id, partitions, offsets, leader_epochs, metadata, None))
        tags = buffer[p]
        p += 1
        if tags:
            raise Unusual
        if p != len(buffer):
            raise Unusual
        return (
            transactional_id,
            group_id,
            producer_id,
            producer_epoch,
            generation_id,
            member_id,
            group_instance_id,
            topics,
        )
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 6, buffer, position, _shape)


def encode_response_v0(
    correlation_id: int,
    throttle_time_ms: int,
    topics: Sequence[tuple[Any, Sequence[int], int | Sequence[int]]],
) -> bytes:
    """TxnOffsetCommit v0."""
    try:
        pieces: list[bytes] = []
        pieces.append(_pack_ii(throttle_time_ms, len(topics)))
        for topic, partitions, codes in topics:
            topic_bytes = topic.encode()
            pieces += (
                _pack_h(len(topic_bytes)),
                topic_bytes,
                _pack_i(len(partitions)),
                code_columns(_zeros, _codes, partitions, codes),
            )
        body = b"".join(pieces)
        return _pack_ii(len(body) + 4, correlation_id) + body
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 0, error) from None


def encode_response_v3(
    correlation_id: int,
    throttle_time_ms: int,
    topics: Sequence[tuple[Any, Sequence[int], int | Sequence[int]]],
) -> bytes:
    """TxnOffsetCommit v3."""
    try:
        pieces: list[bytes] = []
        pieces += (_pack_i(throttle_time_ms), count_prefix(len(topics)))
        for topic, partitions, codes in topics:
            pieces += (
                compact_text(topic),
                count_prefix(len(partitions)),
                code_columns(_zerosx, _codesx, partitions, codes),
                b"\x00",
            )
        pieces.append(b"\x00")
        body = b"".join(pieces)
        return _pack_iix(len(body) + 5, correlation_id) + body
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 3, error) from None


def encode_response_v6(
    correlation_id: int,
    throttle_time_ms: int,
    topics: Sequence[tuple[Any, Sequence[int], int | Sequence[int]]],
) -> bytes:
    """TxnOffsetCommit v6."""
    try:
        pieces: list[bytes] = []
        pieces += (_pack_i(throttle_time_ms), count_prefix(len(topics)))
        for topic, partitions, codes in topics:
            pieces += (
                uuid(topic),
                count_prefix(len(partitions)),
                code_columns(_zerosx, _codesx, partitions, codes),
                b"\x00",
            )
        pieces.append(b"\x00")
        body = b"".join(pieces)
        return _pack_iix(len(body) + 5, correlation_id) + body
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 6, error) from None


DECODE_REQUEST: Final[dict[int, Callable[[bytes, int], Request]]] = codecs(
    "decode",
    "txn_offset_commit",
    {
        0: decode_request_v0,
        1: decode_request_v0,
        2: decode_request_v2,
        3: decode_request_v3,
        4: decode_request_v3,
        5: decode_request_v3,
        6: decode_request_v6,
    },
)

ENCODE_RESPONSE: Final[dict[int, Callable[..., bytes]]] = codecs(
    "encode",
    "txn_offset_commit",
    {
        0: encode_response_v0,
        1: encode_response_v0,
        2: encode_response_v0,
        3: encode_response_v3,
        4: encode_response_v3,
        5: encode_response_v3,
        6: encode_response_v6,
    },
)
