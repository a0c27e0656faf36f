"""Fetch in straight lines. Written by ``tools/make_codecs.py``; do not edit."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from protocol.columns import (
    Unpackers,
    Unusual,
    slow,
)
from protocol.errors import ProtocolError
from protocol.messages.fetch import API
from protocol.wire import read_varint

Partition = tuple[int, int, int, int, int, int]
Topic = tuple[Any, list[Partition]]
Forgotten = tuple[Any, tuple[int, ...]]
Request = tuple[int, int, int, int, int, int, int, list[Topic], list[Forgotten], str]

_int32s = Unpackers("i")
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


DECODE_REQUEST: Final[dict[int, Callable[[bytes, int], Request]]] = {
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
}
