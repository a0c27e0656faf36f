"""The embedded consumer protocol: the subscription and assignment bytes of a "consumer" group's
members.

Subscription and Assignment begin with an int16 version; a later version only appends fields, so
only the version 0 prefix of each version is read (KIP-429). The broker and the coordinator decode
only the subscribed topics for their own use.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from protocol.errors import ProtocolError

CONSUMER = "consumer"
"""The protocol type of consumer groups."""

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def take(self, size: int) -> bytes:
        end = self.position + size
        if size < 0 or end > len(self.data):
            raise ProtocolError(f"consumer protocol: {size} bytes expected, but fewer are left")
        taken = self.data[self.position : end]
        self.position = end
        return taken

    def int16(self) -> int:
        return int(_INT16.unpack(self.take(2))[0])

    def int32(self) -> int:
        return int(_INT32.unpack(self.take(4))[0])

    def count(self, least_size: int) -> int:
        count = self.int32()
        if count < 0 or count * least_size > len(self.data) - self.position:
            raise ProtocolError(f"consumer protocol: {count} elements expected, but fewer are left")
        return count

    def string(self) -> str:
        try:
            return self.take(self.int16()).decode()
        except UnicodeDecodeError as error:
            raise ProtocolError("consumer protocol: a topic is not UTF-8") from error


def _string(text: str) -> bytes:
    data = text.encode()
    return _INT16.pack(len(data)) + data


def subscribed_topics(metadata: bytes) -> list[str]:
    """The topics of a Subscription of any version; raises ProtocolError for other bytes."""
    reader = _Reader(metadata)
    if reader.int16() < 0:
        raise ProtocolError("consumer protocol: the version must not be negative")
    return [reader.string() for _ in range(reader.count(2))]


def assigned_partitions(assignment: bytes) -> dict[str, list[int]]:
    """The partitions by topic in an Assignment of any version; empty bytes mean an empty
    assignment."""
    if not assignment:
        return {}
    reader = _Reader(assignment)
    if reader.int16() < 0:
        raise ProtocolError("consumer protocol: the version must not be negative")
    assigned: dict[str, list[int]] = {}
    for _ in range(reader.count(6)):
        topic = reader.string()
        count = reader.count(4)
        assigned[topic] = list(struct.unpack(f">{count}i", reader.take(4 * count)))
    return assigned


def encode_subscription(topics: Sequence[str]) -> bytes:
    """A version 0 Subscription without user data."""
    listed = b"".join(_string(topic) for topic in topics)
    return _INT16.pack(0) + _INT32.pack(len(topics)) + listed + _INT32.pack(-1)


def encode_assignment(assigned: Mapping[str, Sequence[int]]) -> bytes:
    """A version 0 Assignment without user data."""
    parts = [_INT16.pack(0), _INT32.pack(len(assigned))]
    for topic, partitions in assigned.items():
        parts.append(_string(topic) + _INT32.pack(len(partitions)))
        parts.extend(_INT32.pack(partition) for partition in partitions)
    parts.append(_INT32.pack(-1))
    return b"".join(parts)
