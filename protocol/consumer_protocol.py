"""The embedded consumer protocol: the subscription and assignment bytes of members in groups of the
type "consumer".

Subscription and Assignment begin with an int16 version. A later version only appends fields, so its
beginning can be read as version 0 (KIP-429). The broker and the coordinator need only the
subscribed topics for their own work.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

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

    def nullable_string(self) -> str | None:
        if self.data[self.position : self.position + 2] == b"\xff\xff":
            self.position += 2
            return None
        return self.string()

    def bytes(self) -> bytes:
        """Reads bytes with a length prefix. Null and missing bytes are returned as empty bytes."""
        if self.position == len(self.data):
            return b""
        size = self.int32()
        return b"" if size < 0 else self.take(size)

    def partitions(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for _ in range(self.count(6)):
            topic = self.string()
            count = self.count(4)
            found[topic] = list(struct.unpack(f">{count}i", self.take(4 * count)))
        return found


def _string(text: str) -> bytes:
    data = text.encode()
    return _INT16.pack(len(data)) + data


class Subscription(NamedTuple):
    """The metadata of a member in JoinGroup, versions 0 to 3."""

    version: int
    topics: list[str]
    owned: dict[str, list[int]]
    """The partitions that the member owns, by topic. Empty before version 1 (KIP-429)."""
    rack: str | None
    """The rack of the member. None before version 3 (KIP-881)."""


def read_subscription(metadata: bytes) -> Subscription:
    """Decodes the metadata of a member. Raises ProtocolError for bytes that are not a
    Subscription."""
    reader = _Reader(metadata)
    version = reader.int16()
    if version < 0:
        raise ProtocolError("consumer protocol: negative version")
    topics = [reader.string() for _ in range(reader.count(2))]
    reader.bytes()
    owned = reader.partitions() if version >= 1 else {}
    if version >= 2:
        reader.int32()  # the generation
    rack = reader.nullable_string() if version >= 3 else None
    return Subscription(version, topics, owned, rack)


def user_data(assignment: bytes) -> bytes:
    """Returns the user data of an Assignment: bytes that an assignor passes to the members."""
    if not assignment:
        return b""
    reader = _Reader(assignment)
    reader.int16()
    reader.partitions()
    return reader.bytes()


def subscribed_topics(metadata: bytes) -> list[str]:
    """Returns the topics of a Subscription of any version. Raises ProtocolError for other bytes."""
    reader = _Reader(metadata)
    if reader.int16() < 0:
        raise ProtocolError("consumer protocol: the version must not be negative")
    return [reader.string() for _ in range(reader.count(2))]


def assigned_partitions(assignment: bytes) -> dict[str, list[int]]:
    """Returns the partitions by topic in an Assignment of any version. Empty bytes mean an empty
    assignment."""
    if not assignment:
        return {}
    reader = _Reader(assignment)
    if reader.int16() < 0:
        raise ProtocolError("consumer protocol: the version must not be negative")
    return reader.partitions()


def encode_subscription(topics: Sequence[str]) -> bytes:
    """Returns a Subscription of version 0 without user data."""
    listed = b"".join(_string(topic) for topic in topics)
    return _INT16.pack(0) + _INT32.pack(len(topics)) + listed + _INT32.pack(-1)


def encode_assignment(assigned: Mapping[str, Sequence[int]], version: int = 0) -> bytes:
    """Returns an Assignment without user data. Versions 0 to 3 have the same form."""
    parts = [_INT16.pack(version), _INT32.pack(len(assigned))]
    for topic, partitions in assigned.items():
        parts.append(_string(topic) + _INT32.pack(len(partitions)))
        parts.extend(_INT32.pack(partition) for partition in partitions)
    parts.append(_INT32.pack(-1))
    return b"".join(parts)
