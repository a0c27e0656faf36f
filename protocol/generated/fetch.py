"""Fetch in straight lines. Written by ``tools/make_codecs.py``; do not edit."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from protocol.columns import (
    Unpackers,
    Unusual,
    compact_text,
    count_prefix,
    slow,
    unsayable,
    uuid,
)
from protocol.compiled import codecs
from protocol.errors import ProtocolError
from protocol.messages.fetch import API
from protocol.wire import read_varint

Partition = tuple[int, int, int, int, int, int]
Topic = tuple[Any, list[Partition]]
Forgotten = tuple[Any, tuple[int, ...]]
Request = tuple[int, int, int, int, int, int, int, list[Topic], list[Forgotten], str]

_int32s = Unpackers("i")
_pack_BBBiqx = struct.Struct(">BBBiqx").pack
_pack_h = struct.Struct(">h").pack
_pack_i = struct.Struct(">i").pack
_pack_ihi = struct.Struct(">ihi").pack
_pack_ihii = struct.Struct(">ihii").pack
_pack_ihqi = struct.Struct(">ihqi").pack
_pack_ihqq = struct.Struct(">ihqq").pack
_pack_ihqqq = struct.Struct(">ihqqq").pack
_pack_ii = struct.Struct(">ii").pack
_pack_iix = struct.Struct(">iix").pack
_pack_qq = struct.Struct(">qq").pack
_pack_qqx = struct.Struct(">qqx").pack
_unpack_h = struct.Struct(">h").unpack_from
_unpack_i = struct.Struct(">i").unpack_from
_unpack_iiibiiB = struct.Struct(">iiibiiB").unpack_from
_unpack_iiii = struct.Struct(">iiii").unpack_from
_unpack_iiiibi = struct.Struct(">iiiibi").unpack_from
_unpack_iiiibiiB = struct.Struct(">iiiibiiB").unpack_from
_unpack_iiiibiii = struct.Struct(">iiiibiii").unpack_from
_unpack_iiiii = struct.Struct(">iiiii").unpack_from
_unpack_iiqiqiB = struct.Struct(">iiqiqiB").unpack_from
_unpack_iiqqi = struct.Struct(">iiqqi").unpack_from
_unpack_iqi = struct.Struct(">iqi").unpack_from
_unpack_iqqi = struct.Struct(">iqqi").unpack_from
_unpack_uB = struct.Struct(">16sB").unpack_from


def _shape(version: int, value: dict[str, Any]) -> Request:
    key = "topic_id" if version >= 13 else "topic"
    topics: list[Topic] = [
        (
            topic[key],
            [
                (
                    part["partition"],
                    part["current_leader_epoch"],
                    part["fetch_offset"],
                    part["last_fetched_epoch"],
                    part["log_start_offset"],
                    part["partition_max_bytes"],
                )
                for part in topic["partitions"]
            ],
        )
        for topic in value["topics"]
    ]
    return (
        value["replica_state"]["replica_id"] if version >= 15 else value["replica_id"],
        value["max_wait_ms"],
        value["min_bytes"],
        value["max_bytes"],
        value["isolation_level"],
        value["session_id"],
        value["session_epoch"],
        topics,
        [(topic[key], tuple(topic["partitions"])) for topic in value["forgotten_topics_data"]],
        value["rack_id"],
    )


def decode_request_v0(buffer: bytes, position: int) -> Request:
    """Fetch v0."""
    p = position
    try:
        replica_id, max_wait_ms, min_bytes, n = _unpack_iiii(buffer, p)
        p += 16
        if n < 0 or n * 6 > len(buffer) - p:
            raise Unusual
        topics: list[Topic] = []
        for _ in range(n):
            (n,) = _unpack_h(buffer, p)
            p += 2
            if n < 0:
                raise Unusual
            e = p + n
            topic_topic = buffer[p:e].decode()
            p = e
            (n,) = _unpack_i(buffer, p)
            p += 4
            if n < 0 or n * 16 > len(buffer) - p:
                raise Unusual
            topic_partitions: list[Partition] = []
            for _ in range(n):
                (
                    topic_partition_partition,
                    topic_partition_fetch_offset,
                    topic_partition_partition_max_bytes,
                ) = _unpack_iqi(buffer, p)
                p += 16
                topic_partitions.append(
                    (
                        topic_partition_partition,
                        -1,
                        topic_partition_fetch_offset,
                        -1,
                        -1,
                        topic_partition_partition_max_bytes,
                    )
                )
            topics.append((topic_topic, topic_partitions))
        if p != len(buffer):
            raise Unusual
        return (replica_id, max_wait_ms, min_bytes, 0x7FFFFFFF, 0, 0, -1, topics, [], "")
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 0, buffer, position, _shape)


def decode_request_v3(buffer: bytes, position: int) -> Request:
    """Fetch v3."""
    p = position
    try:
        replica_id, max_wait_ms, min_bytes, max_bytes, n = _unpack_iiiii(buffer, p)
        p += 20
        if n < 0 or n * 6 > len(buffer) - p:
            raise Unusual
        topics: list[Topic] = []
        for _ in range(n):
            (n,) = _unpack_h(buffer, p)
            p += 2
            if n < 0:
                raise Unusual
            e = p + n
            topic_topic = buffer[p:e].decode()
            p = e
            (n,) = _unpack_i(buffer, p)
            p += 4
            if n < 0 or n * 16 > len(buffer) - p:
                raise Unusual
            topic_partitions: list[Partition] = []
            for _ in range(n):
                (
                    topic_partition_partition,
                    topic_partition_fetch_offset,
                    topic_partition_partition_max_bytes,
                ) = _unpack_iqi(buffer, p)
                p += 16
                topic_partitions.append(
                    (
                        topic_partition_partition,
                        -1,
                        topic_partition_fetch_offset,
                        -1,
                        -1,
                        topic_partition_partition_max_bytes,
                    )
                )
            topics.append((topic_topic, topic_partitions))
        if p != len(buffer):
            raise Unusual
        return (replica_id, max_wait_ms, min_bytes, max_bytes, 0, 0, -1, topics, [], "")
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 3, buffer, position, _shape)


def decode_request_v4(buffer: bytes, position: int) -> Request:
    """Fetch v4."""
    p = position
    try:
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, n = _unpack_iiiibi(
            buffer, p
        )
        p += 21
        if n < 0 or n * 6 > len(buffer) - p:
            raise Unusual
        topics: list[Topic] = []
        for _ in range(n):
            (n,) = _unpack_h(buffer, p)
            p += 2
            if n < 0:
                raise Unusual
            e = p + n
            topic_topic = buffer[p:e].decode()
            p = e
            (n,) = _unpack_i(buffer, p)
            p += 4
            if n < 0 or n * 16 > len(buffer) - p:
                raise Unusual
            topic_partitions: list[Partition] = []
            for _ in range(n):
                (
                    topic_partition_partition,
                    topic_partition_fetch_offset,
                    topic_partition_partition_max_bytes,
                ) = _unpack_iqi(buffer, p)
                p += 16
                topic_partitions.append(
                    (
                        topic_partition_partition,
                        -1,
                        topic_partition_fetch_offset,
                        -1,
                        -1,
                        topic_partition_partition_max_bytes,
                    )
                )
            topics.append((topic_topic, topic_partitions))
        if p != len(buffer):
            raise Unusual
        return (
            replica_id,
            max_wait_ms,
            min_bytes,
            max_bytes,
            isolation_level,
            0,
            -1,
            topics,
            [],
            "",
        )
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 4, buffer, position, _shape)


def decode_request_v5(buffer: bytes, position: int) -> Request:
    """Fetch v5."""
    p = position
    try:
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, n = _unpack_iiiibi(
            buffer, p
        )
        p += 21
        if n < 0 or n * 6 > len(buffer) - p:
            raise Unusual
        topics: list[Topic] = []
        for _ in range(n):
            (n,) = _unpack_h(buffer, p)
            p += 2
            if n < 0:
                raise Unusual
            e = p + n
            topic_topic = buffer[p:e].decode()
            p = e
            (n,) = _unpack_i(buffer, p)
            p += 4
            if n < 0 or n * 24 > len(buffer) - p:
                raise Unusual
            topic_partitions: list[Partition] = []
            for _ in range(n):
                (
                    topic_partition_partition,
                    topic_partition_fetch_offset,
                    topic_partition_log_start_offset,
                    topic_partition_partition_max_bytes,
                ) = _unpack_iqqi(buffer, p)
                p += 24
                topic_partitions.append(
                    (
                        topic_partition_partition,
                        -1,
                        topic_partition_fetch_offset,
                        -1,
                        topic_partition_log_start_offset,
                        topic_partition_partition_max_bytes,
                    )
                )
            topics.append((topic_topic, topic_partitions))
        if p != len(buffer):
            raise Unusual
        return (
            replica_id,
            max_wait_ms,
            min_bytes,
            max_bytes,
            isolation_level,
            0,
            -1,
            topics,
            [],
            "",
        )
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 5, buffer, position, _shape)


def decode_request_v7(buffer: bytes, position: int) -> Request:
    """Fetch v7."""
    p = position
    try:
        (
            replica_id,
            max_wait_ms,
            min_bytes,
            max_bytes,
            isolation_level,
            session_id,
            session_epoch,
            n,
        ) = _unpack_iiiibiii(buffer, p)
        p += 29
        if n < 0 or n * 6 > len(buffer) - p:
            raise Unusual
        topics: list[Topic] = []
        for _ in range(n):
            (n,) = _unpack_h(buffer, p)
            p += 2
            if n < 0:
                raise Unusual
            e = p + n
            topic_topic = buffer[p:e].decode()
            p = e
            (n,) = _unpack_i(buffer, p)
            p += 4
            if n < 0 or n * 24 > len(buffer) - p:
                raise Unusual
            topic_partitions: list[Partition] = []
            for _ in range(n):
                (
                    topic_partition_partition,
                    topic_partition_fetch_offset,
                    topic_partition_log_start_offset,
                    topic_partition_partition_max_bytes,
                ) = _unpack_iqqi(buffer, p)
                p += 24
                topic_partitions.append(
                    (
                        topic_partition_partition,
                        -1,
                        topic_partition_fetch_offset,
                        -1,
                        topic_partition_log_start_offset,
                        topic_partition_partition_max_bytes,
                    )
                )
            topics.append((topic_topic, topic_partitions))
        (n,) = _unpack_i(buffer, p)
        p += 4
        if n < 0 or n * 6 > len(buffer) - p:
            raise Unusual
        forgotten_topics_data: list[Forgotten] = []
        for _ in range(n):
            (n,) = _unpack_h(buffer, p)
            p += 2
            if n < 0:
                raise Unusual
            e = p + n
            forgotten_topics_data_topic = buffer[p:e].decode()
            p = e
            (n,) = _unpack_i(buffer, p)
            p += 4
            if n < 0 or n * 4 > len(buffer) - p:
                raise Unusual
            forgotten_topics_data_partitions = _int32s[n](buffer, p)
            p += n * 4
            forgotten_topics_data.append(
                (forgotten_topics_data_topic, forgotten_topics_data_partitions)
            )
        if p != len(buffer):
            raise Unusual
        return (
            replica_id,
            max_wait_ms,
            min_bytes,
            max_bytes,
            isolation_level,
            session_id,
            session_epoch,
            topics,
            forgotten_topics_data,
            "",
        )
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 7, buffer, position, _shape)


def decode_request_v9(buffer: bytes, position: int) -> Request:
    """Fetch v9."""
    p = position
    try:
        (
            replica_id,
            max_wait_ms,
            min_bytes,
            max_bytes,
            isolation_level,
            session_id,
            session_epoch,
            n,
        ) = _unpack_iiiibiii(buffer, p)
        p += 29
        if n < 0 or n * 6 > len(buffer) - p:
            raise Unusual
        topics: list[Topic] = []
        for _ in range(n):
            (n,) = _unpack_h(buffer, p)
            p += 2
            if n < 0:
                raise Unusual
            e = p + n
            topic_topic = buffer[p:e].decode()
            p = e
            (n,) = _unpack_i(buffer, p)
            p += 4
            if n < 0 or n * 28 > len(buffer) - p:
                raise Unusual
            topic_partitions: list[Partition] = []
            for _ in range(n):
                (
                    topic_partition_partition,
                    topic_partition_current_leader_epoch,
                    topic_partition_fetch_offset,
                    topic_partition_log_start_offset,
                    topic_partition_partition_max_bytes,
                ) = _unpack_iiqqi(buffer, p)
                p += 28
                topic_partitions.append(
                    (
                        topic_partition_partition,
                        topic_partition_current_leader_epoch,
                        topic_partition_fetch_offset,
                        -1,
                        topic_partition_log_start_offset,
                        topic_partition_partition_max_bytes,
                    )
                )
            topics.append((topic_topic, topic_partitions))
        (n,) = _unpack_i(buffer, p)
        p += 4
        if n < 0 or n * 6 > len(buffer) - p:
            raise Unusual
        forgotten_topics_data: list[Forgotten] = []
        for _ in range(n):
            (n,) = _unpack_h(buffer, p)
            p += 2
            if n < 0:
                raise Unusual
            e = p + n
            forgotten_topics_data_topic = buffer[p:e].decode()
            p = e
            (n,) = _unpack_i(buffer, p)
            p += 4
            if n < 0 or n * 4 > len(buffer) - p:
                raise Unusual
            forgotten_topics_data_partitions = _int32s[n](buffer, p)
            p += n * 4
            forgotten_topics_data.append(
                (forgotten_topics_data_topic, forgotten_topics_data_partitions)
            )
        if p != len(buffer):
            raise Unusual
        return (
            replica_id,
            max_wait_ms,
            min_bytes,
            max_bytes,
            isolation_level,
            session_id,
            session_epoch,
            topics,
            forgotten_topics_data,
            "",
        )
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 9, buffer, position, _shape)


def decode_request_v11(buffer: bytes, position: int) -> Request:
    """Fetch v11."""
    p = position
    try:
        (
            replica_id,
            max_wait_ms,
            min_bytes,
            max_bytes,
            isolation_level,
            session_id,
            session_epoch,
            n,
        ) = _unpack_iiiibiii(buffer, p)
        p += 29
        if n < 0 or n * 6 > len(buffer) - p:
            raise Unusual
        topics: list[Topic] = []
        for _ in range(n):
            (n,) = _unpack_h(buffer, p)
            p += 2
            if n < 0:
                raise Unusual
            e = p + n
            topic_topic = buffer[p:e].decode()
            p = e
            (n,) = _unpack_i(buffer, p)
            p += 4
            if n < 0 or n * 28 > len(buffer) - p:
                raise Unusual
            topic_partitions: list[Partition] = []
            for _ in range(n):
                (
                    topic_partition_partition,
                    topic_partition_current_leader_epoch,
                    topic_partition_fetch_offset,
                    topic_partition_log_start_offset,
                    topic_partition_partition_max_bytes,
                ) = _unpack_iiqqi(buffer, p)
                p += 28
                topic_partitions.append(
                    (
                        topic_partition_partition,
                        topic_partition_current_leader_epoch,
                        topic_partition_fetch_offset,
                        -1,
                        topic_partition_log_start_offset,
                        topic_partition_partition_max_bytes,
                    )
                )
            topics.append((topic_topic, topic_partitions))
        (n,) = _unpack_i(buffer, p)
        p += 4
        if n < 0 or n * 6 > len(buffer) - p:
            raise Unusual
        forgotten_topics_data: list[Forgotten] = []
        for _ in range(n):
            (n,) = _unpack_h(buffer, p)
            p += 2
            if n < 0:
                raise Unusual
            e = p + n
            forgotten_topics_data_topic = buffer[p:e].decode()
            p = e
            (n,) = _unpack_i(buffer, p)
            p += 4
            if n < 0 or n * 4 > len(buffer) - p:
                raise Unusual
            forgotten_topics_data_partitions = _int32s[n](buffer, p)
            p += n * 4
            forgotten_topics_data.append(
                (forgotten_topics_data_topic, forgotten_topics_data_partitions)
            )
        (n,) = _unpack_h(buffer, p)
        p += 2
        if n < 0:
            raise Unusual
        e = p + n
        rack_id = buffer[p:e].decode()
        p = e
        if p != len(buffer):
            raise Unusual
        return (
            replica_id,
            max_wait_ms,
            min_bytes,
            max_bytes,
            isolation_level,
            session_id,
            session_epoch,
            topics,
            forgotten_topics_data,
            rack_id,
        )
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 11, buffer, position, _shape)


def decode_request_v12(buffer: bytes, position: int) -> Request:
    """Fetch v12."""
    p = position
    try:
        (
            replica_id,
            max_wait_ms,
            min_bytes,
            max_bytes,
            isolation_level,
            session_id,
            session_epoch,
            n,
        ) = _unpack_iiiibiiB(buffer, p)
        p += 26
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
            topic_topic = buffer[p:e].decode()
            p = e
            n = buffer[p]
            p += 1
            if n > 127:
                n, p = read_varint(buffer, p - 1)
            n -= 1
            if n < 0 or n * 33 > len(buffer) - p:
                raise Unusual
            topic_partitions: list[Partition] = []
            for _ in range(n):
                (
                    topic_partition_partition,
                    topic_partition_current_leader_epoch,
                    topic_partition_fetch_offset,
                    topic_partition_last_fetched_epoch,
                    topic_partition_log_start_offset,
                    topic_partition_partition_max_bytes,
                    topic_partition_tags,
                ) = _unpack_iiqiqiB(buffer, p)
                p += 33
                if topic_partition_tags:
                    raise Unusual
                topic_partitions.append(
                    (
                        topic_partition_partition,
                        topic_partition_current_leader_epoch,
                        topic_partition_fetch_offset,
                        topic_partition_last_fetched_epoch,
                        topic_partition_log_start_offset,
                        topic_partition_partition_max_bytes,
                    )
                )
            topic_tags = buffer[p]
            p += 1
            if topic_tags:
                raise Unusual
            topics.append((topic_topic, topic_partitions))
        n = buffer[p]
        p += 1
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        n -= 1
        if n < 0 or n * 3 > len(buffer) - p:
            raise Unusual
        forgotten_topics_data: list[Forgotten] = []
        for _ in range(n):
            n = buffer[p]
            p += 1
            if n > 127:
                n, p = read_varint(buffer, p - 1)
            if n == 0 or n > 32768:
                raise Unusual
            e = p + n - 1
            forgotten_topics_data_topic = buffer[p:e].decode()
            p = e
            n = buffer[p]
            p += 1
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
                (forgotten_topics_data_topic, forgotten_topics_data_partitions)
            )
        n = buffer[p]
        p += 1
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        if n == 0 or n > 32768:
            raise Unusual
        e = p + n - 1
        rack_id = buffer[p:e].decode()
        p = e
        tags = buffer[p]
        p += 1
        if tags:
            raise Unusual
        if p != len(buffer):
            raise Unusual
        return (
            replica_id,
            max_wait_ms,
            min_bytes,
            max_bytes,
            isolation_level,
            session_id,
            session_epoch,
            topics,
            forgotten_topics_data,
            rack_id,
        )
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 12, buffer, position, _shape)


def decode_request_v13(buffer: bytes, position: int) -> Request:
    """Fetch v13."""
    p = position
    try:
        (
            replica_id,
            max_wait_ms,
            min_bytes,
            max_bytes,
            isolation_level,
            session_id,
            session_epoch,
            n,
        ) = _unpack_iiiibiiB(buffer, p)
        p += 26
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
            if n < 0 or n * 33 > len(buffer) - p:
                raise Unusual
            topic_partitions: list[Partition] = []
            for _ in range(n):
                (
                    topic_partition_partition,
                    topic_partition_current_leader_epoch,
                    topic_partition_fetch_offset,
                    topic_partition_last_fetched_epoch,
                    topic_partition_log_start_offset,
                    topic_partition_partition_max_bytes,
                    topic_partition_tags,
                ) = _unpack_iiqiqiB(buffer, p)
                p += 33
                if topic_partition_tags:
                    raise Unusual
                topic_partitions.append(
                    (
                        topic_partition_partition,
                        topic_partition_current_leader_epoch,
                        topic_partition_fetch_offset,
                        topic_partition_last_fetched_epoch,
                        topic_partition_log_start_offset,
                        topic_partition_partition_max_bytes,
                    )
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
        n = buffer[p]
        p += 1
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        if n == 0 or n > 32768:
            raise Unusual
        e = p + n - 1
        rack_id = buffer[p:e].decode()
        p = e
        tags = buffer[p]
        p += 1
        if tags:
            raise Unusual
        if p != len(buffer):
            raise Unusual
        return (
            replica_id,
            max_wait_ms,
            min_bytes,
            max_bytes,
            isolation_level,
            session_id,
            session_epoch,
            topics,
            forgotten_topics_data,
            rack_id,
        )
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 13, buffer, position, _shape)


def decode_request_v15(buffer: bytes, position: int) -> Request:
    """Fetch v15."""
    p = position
    try:
        max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch, n = (
            _unpack_iiibiiB(buffer, p)
        )
        p += 22
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
            if n < 0 or n * 33 > len(buffer) - p:
                raise Unusual
            topic_partitions: list[Partition] = []
            for _ in range(n):
                (
                    topic_partition_partition,
                    topic_partition_current_leader_epoch,
                    topic_partition_fetch_offset,
                    topic_partition_last_fetched_epoch,
                    topic_partition_log_start_offset,
                    topic_partition_partition_max_bytes,
                    topic_partition_tags,
                ) = _unpack_iiqiqiB(buffer, p)
                p += 33
                if topic_partition_tags:
                    raise Unusual
                topic_partitions.append(
                    (
                        topic_partition_partition,
                        topic_partition_current_leader_epoch,
                        topic_partition_fetch_offset,
                        topic_partition_last_fetched_epoch,
                        topic_partition_log_start_offset,
                        topic_partition_partition_max_bytes,
                    )
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
        n = buffer[p]
        p += 1
        if n > 127:
            n, p = read_varint(buffer, p - 1)
        if n == 0 or n > 32768:
            raise Unusual
        e = p + n - 1
        rack_id = buffer[p:e].decode()
        p = e
        tags = buffer[p]
        p += 1
        if tags:
            raise Unusual
        if p != len(buffer):
            raise Unusual
        return (
            -1,
            max_wait_ms,
            min_bytes,
            max_bytes,
            isolation_level,
            session_id,
            session_epoch,
            topics,
            forgotten_topics_data,
            rack_id,
        )
    except (Unusual, struct.error, IndexError, UnicodeDecodeError, ProtocolError):
        return slow(API, 15, buffer, position, _shape)


def encode_response_v0(
    correlation_id: int,
    throttle_time_ms: int,
    error_code: int,
    session_id: int,
    topics: Sequence[tuple[Any, Sequence[Any]]],
) -> list[Any]:
    """Fetch v0."""
    try:
        pieces: list[bytes] = []
        chunks: list[Any] = []
        size = 0
        pieces.append(_pack_i(len(topics)))
        for topic, partitions in topics:
            topic_bytes = topic.encode()
            pieces += (_pack_h(len(topic_bytes)), topic_bytes, _pack_i(len(partitions)))
            for each in partitions:
                pieces.append(
                    _pack_ihqi(
                        each.partition, each.error_code, each.high_watermark, each.size_bytes
                    )
                )
                if each.size_bytes:
                    part = b"".join(pieces)
                    chunks += (part, *each.records)
                    size += len(part) + each.size_bytes
                    pieces = []
        if pieces:
            part = b"".join(pieces)
            chunks.append(part)
            size += len(part)
        chunks[0] = _pack_ii(size + 4, correlation_id) + chunks[0]
        return chunks
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 0, error) from None


def encode_response_v1(
    correlation_id: int,
    throttle_time_ms: int,
    error_code: int,
    session_id: int,
    topics: Sequence[tuple[Any, Sequence[Any]]],
) -> list[Any]:
    """Fetch v1."""
    try:
        pieces: list[bytes] = []
        chunks: list[Any] = []
        size = 0
        pieces.append(_pack_ii(throttle_time_ms, len(topics)))
        for topic, partitions in topics:
            topic_bytes = topic.encode()
            pieces += (_pack_h(len(topic_bytes)), topic_bytes, _pack_i(len(partitions)))
            for each in partitions:
                pieces.append(
                    _pack_ihqi(
                        each.partition, each.error_code, each.high_watermark, each.size_bytes
                    )
                )
                if each.size_bytes:
                    part = b"".join(pieces)
                    chunks += (part, *each.records)
                    size += len(part) + each.size_bytes
                    pieces = []
        if pieces:
            part = b"".join(pieces)
            chunks.append(part)
            size += len(part)
        chunks[0] = _pack_ii(size + 4, correlation_id) + chunks[0]
        return chunks
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 1, error) from None


def encode_response_v4(
    correlation_id: int,
    throttle_time_ms: int,
    error_code: int,
    session_id: int,
    topics: Sequence[tuple[Any, Sequence[Any]]],
) -> list[Any]:
    """Fetch v4."""
    try:
        pieces: list[bytes] = []
        chunks: list[Any] = []
        size = 0
        pieces.append(_pack_ii(throttle_time_ms, len(topics)))
        for topic, partitions in topics:
            topic_bytes = topic.encode()
            pieces += (_pack_h(len(topic_bytes)), topic_bytes, _pack_i(len(partitions)))
            for each in partitions:
                pieces.append(
                    _pack_ihqq(
                        each.partition,
                        each.error_code,
                        each.high_watermark,
                        each.last_stable_offset,
                    )
                )
                if each.aborted_transactions is None:
                    pieces.append(b"\xff\xff\xff\xff")
                else:
                    pieces.append(_pack_i(len(each.aborted_transactions)))
                    for producer_id, first_offset in each.aborted_transactions:
                        pieces.append(_pack_qq(producer_id, first_offset))
                pieces.append(_pack_i(each.size_bytes))
                if each.size_bytes:
                    part = b"".join(pieces)
                    chunks += (part, *each.records)
                    size += len(part) + each.size_bytes
                    pieces = []
        if pieces:
            part = b"".join(pieces)
            chunks.append(part)
            size += len(part)
        chunks[0] = _pack_ii(size + 4, correlation_id) + chunks[0]
        return chunks
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 4, error) from None


def encode_response_v5(
    correlation_id: int,
    throttle_time_ms: int,
    error_code: int,
    session_id: int,
    topics: Sequence[tuple[Any, Sequence[Any]]],
) -> list[Any]:
    """Fetch v5."""
    try:
        pieces: list[bytes] = []
        chunks: list[Any] = []
        size = 0
        pieces.append(_pack_ii(throttle_time_ms, len(topics)))
        for topic, partitions in topics:
            topic_bytes = topic.encode()
            pieces += (_pack_h(len(topic_bytes)), topic_bytes, _pack_i(len(partitions)))
            for each in partitions:
                pieces.append(
                    _pack_ihqqq(
                        each.partition,
                        each.error_code,
                        each.high_watermark,
                        each.last_stable_offset,
                        each.log_start_offset,
                    )
                )
                if each.aborted_transactions is None:
                    pieces.append(b"\xff\xff\xff\xff")
                else:
                    pieces.append(_pack_i(len(each.aborted_transactions)))
                    for producer_id, first_offset in each.aborted_transactions:
                        pieces.append(_pack_qq(producer_id, first_offset))
                pieces.append(_pack_i(each.size_bytes))
                if each.size_bytes:
                    part = b"".join(pieces)
                    chunks += (part, *each.records)
                    size += len(part) + each.size_bytes
                    pieces = []
        if pieces:
            part = b"".join(pieces)
            chunks.append(part)
            size += len(part)
        chunks[0] = _pack_ii(size + 4, correlation_id) + chunks[0]
        return chunks
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 5, error) from None


def encode_response_v7(
    correlation_id: int,
    throttle_time_ms: int,
    error_code: int,
    session_id: int,
    topics: Sequence[tuple[Any, Sequence[Any]]],
) -> list[Any]:
    """Fetch v7."""
    try:
        pieces: list[bytes] = []
        chunks: list[Any] = []
        size = 0
        pieces.append(_pack_ihii(throttle_time_ms, error_code, session_id, len(topics)))
        for topic, partitions in topics:
            topic_bytes = topic.encode()
            pieces += (_pack_h(len(topic_bytes)), topic_bytes, _pack_i(len(partitions)))
            for each in partitions:
                pieces.append(
                    _pack_ihqqq(
                        each.partition,
                        each.error_code,
                        each.high_watermark,
                        each.last_stable_offset,
                        each.log_start_offset,
                    )
                )
                if each.aborted_transactions is None:
                    pieces.append(b"\xff\xff\xff\xff")
                else:
                    pieces.append(_pack_i(len(each.aborted_transactions)))
                    for producer_id, first_offset in each.aborted_transactions:
                        pieces.append(_pack_qq(producer_id, first_offset))
                pieces.append(_pack_i(each.size_bytes))
                if each.size_bytes:
                    part = b"".join(pieces)
                    chunks += (part, *each.records)
                    size += len(part) + each.size_bytes
                    pieces = []
        if pieces:
            part = b"".join(pieces)
            chunks.append(part)
            size += len(part)
        chunks[0] = _pack_ii(size + 4, correlation_id) + chunks[0]
        return chunks
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 7, error) from None


def encode_response_v11(
    correlation_id: int,
    throttle_time_ms: int,
    error_code: int,
    session_id: int,
    topics: Sequence[tuple[Any, Sequence[Any]]],
) -> list[Any]:
    """Fetch v11."""
    try:
        pieces: list[bytes] = []
        chunks: list[Any] = []
        size = 0
        pieces.append(_pack_ihii(throttle_time_ms, error_code, session_id, len(topics)))
        for topic, partitions in topics:
            topic_bytes = topic.encode()
            pieces += (_pack_h(len(topic_bytes)), topic_bytes, _pack_i(len(partitions)))
            for each in partitions:
                pieces.append(
                    _pack_ihqqq(
                        each.partition,
                        each.error_code,
                        each.high_watermark,
                        each.last_stable_offset,
                        each.log_start_offset,
                    )
                )
                if each.aborted_transactions is None:
                    pieces.append(b"\xff\xff\xff\xff")
                else:
                    pieces.append(_pack_i(len(each.aborted_transactions)))
                    for producer_id, first_offset in each.aborted_transactions:
                        pieces.append(_pack_qq(producer_id, first_offset))
                pieces.append(_pack_ii(-1, each.size_bytes))
                if each.size_bytes:
                    part = b"".join(pieces)
                    chunks += (part, *each.records)
                    size += len(part) + each.size_bytes
                    pieces = []
        if pieces:
            part = b"".join(pieces)
            chunks.append(part)
            size += len(part)
        chunks[0] = _pack_ii(size + 4, correlation_id) + chunks[0]
        return chunks
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 11, error) from None


def encode_response_v12(
    correlation_id: int,
    throttle_time_ms: int,
    error_code: int,
    session_id: int,
    topics: Sequence[tuple[Any, Sequence[Any]]],
) -> list[Any]:
    """Fetch v12."""
    try:
        pieces: list[bytes] = []
        chunks: list[Any] = []
        size = 0
        pieces += (_pack_ihi(throttle_time_ms, error_code, session_id), count_prefix(len(topics)))
        for topic, partitions in topics:
            pieces += (compact_text(topic), count_prefix(len(partitions)))
            for each in partitions:
                pieces.append(
                    _pack_ihqqq(
                        each.partition,
                        each.error_code,
                        each.high_watermark,
                        each.last_stable_offset,
                        each.log_start_offset,
                    )
                )
                if each.aborted_transactions is None:
                    pieces.append(b"\x00")
                else:
                    pieces.append(count_prefix(len(each.aborted_transactions)))
                    for producer_id, first_offset in each.aborted_transactions:
                        pieces.append(_pack_qqx(producer_id, first_offset))
                pieces += (_pack_i(-1), count_prefix(each.size_bytes))
                if each.size_bytes:
                    part = b"".join(pieces)
                    chunks += (part, *each.records)
                    size += len(part) + each.size_bytes
                    pieces = []
                if each.diverging is None:
                    pieces.append(b"\0")
                else:
                    pieces.append(_pack_BBBiqx(1, 0, 13, *each.diverging))
            pieces.append(b"\x00")
        pieces.append(b"\x00")
        if pieces:
            part = b"".join(pieces)
            chunks.append(part)
            size += len(part)
        chunks[0] = _pack_iix(size + 5, correlation_id) + chunks[0]
        return chunks
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 12, error) from None


def encode_response_v13(
    correlation_id: int,
    throttle_time_ms: int,
    error_code: int,
    session_id: int,
    topics: Sequence[tuple[Any, Sequence[Any]]],
) -> list[Any]:
    """Fetch v13."""
    try:
        pieces: list[bytes] = []
        chunks: list[Any] = []
        size = 0
        pieces += (_pack_ihi(throttle_time_ms, error_code, session_id), count_prefix(len(topics)))
        for topic, partitions in topics:
            pieces += (uuid(topic), count_prefix(len(partitions)))
            for each in partitions:
                pieces.append(
                    _pack_ihqqq(
                        each.partition,
                        each.error_code,
                        each.high_watermark,
                        each.last_stable_offset,
                        each.log_start_offset,
                    )
                )
                if each.aborted_transactions is None:
                    pieces.append(b"\x00")
                else:
                    pieces.append(count_prefix(len(each.aborted_transactions)))
                    for producer_id, first_offset in each.aborted_transactions:
                        pieces.append(_pack_qqx(producer_id, first_offset))
                pieces += (_pack_i(-1), count_prefix(each.size_bytes))
                if each.size_bytes:
                    part = b"".join(pieces)
                    chunks += (part, *each.records)
                    size += len(part) + each.size_bytes
                    pieces = []
                if each.diverging is None:
                    pieces.append(b"\0")
                else:
                    pieces.append(_pack_BBBiqx(1, 0, 13, *each.diverging))
            pieces.append(b"\x00")
        pieces.append(b"\x00")
        if pieces:
            part = b"".join(pieces)
            chunks.append(part)
            size += len(part)
        chunks[0] = _pack_iix(size + 5, correlation_id) + chunks[0]
        return chunks
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise unsayable(API, 13, error) from None


DECODE_REQUEST: Final[dict[int, Callable[[bytes, int], Request]]] = codecs(
    "decode",
    "fetch",
    {
        0: decode_request_v0,
        1: decode_request_v0,
        2: decode_request_v0,
        3: decode_request_v3,
        4: decode_request_v4,
        5: decode_request_v5,
        6: decode_request_v5,
        7: decode_request_v7,
        8: decode_request_v7,
        9: decode_request_v9,
        10: decode_request_v9,
        11: decode_request_v11,
        12: decode_request_v12,
        13: decode_request_v13,
        14: decode_request_v13,
        15: decode_request_v15,
        16: decode_request_v15,
        17: decode_request_v15,
        18: decode_request_v15,
    },
)

ENCODE_RESPONSE: Final[dict[int, Callable[..., list[Any]]]] = codecs(
    "encode",
    "fetch",
    {
        0: encode_response_v0,
        1: encode_response_v1,
        2: encode_response_v1,
        3: encode_response_v1,
        4: encode_response_v4,
        5: encode_response_v5,
        6: encode_response_v5,
        7: encode_response_v7,
        8: encode_response_v7,
        9: encode_response_v7,
        10: encode_response_v7,
        11: encode_response_v11,
        12: encode_response_v12,
        13: encode_response_v13,
        14: encode_response_v13,
        15: encode_response_v13,
        16: encode_response_v13,
        17: encode_response_v13,
        18: encode_response_v13,
    },
)
