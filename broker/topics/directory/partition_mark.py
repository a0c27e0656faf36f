"""``partition.metadata``: the file in a partition's directory that contains the topic id (Kafka
2.8, KIP-516)."""

from __future__ import annotations

import os
import re

from broker.topics.registry import BadDirectory, Topic, uuid_bytes, uuid_text
from log.files.filesystem import FileSystem, read_whole, write_whole
from protocol.schema import ZERO_UUID

FILE = "partition.metadata"
_WHOLE = re.compile(r"version: ?\d+\s+topic_id: ?([A-Za-z0-9_-]{22})\s*")


def partition_metadata(topic_id: bytes) -> bytes:
    """Returns the contents of a ``partition.metadata`` file. As in Kafka, the last line has no
    newline."""
    return f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode()


def mark(fs: FileSystem, directory: str, topic_id: bytes) -> None:
    """Writes the file, unless the topic has no id (before Kafka 2.8). The file is not fsynced:
    after a power loss it may be incomplete. Raises OSError."""
    if topic_id != ZERO_UUID:
        path = os.path.join(directory, FILE)
        write_whole(fs, path, partition_metadata(topic_id), durable=False)


def mark_of(fs: FileSystem, directory: str) -> bytes | None:
    """Returns the topic id in the file of a directory; None if the file is missing or
    incomplete."""
    path = os.path.join(directory, FILE)
    text = read_whole(fs, path).decode("ascii", "replace") if fs.exists(path) else ""
    found = _WHOLE.fullmatch(text)
    return None if found is None else uuid_bytes(found[1])


def check_mark(fs: FileSystem, directory: str, topic: Topic) -> None:
    """Writes the file `partition.metadata` if it is missing or incomplete. Raises BadDirectory if
    the file contains another topic's id."""
    if topic.topic_id == ZERO_UUID:
        return
    found = mark_of(fs, directory)
    if found is None:
        fs.make_directory(directory)
        mark(fs, directory, topic.topic_id)
    elif found != topic.topic_id:
        raise BadDirectory(
            f"{directory} has the topic id {uuid_text(found)!r}, but topic {topic.name} has"
            f" {uuid_text(topic.topic_id)!r}: move the directory away, or restore the"
            " topics.json that belongs to the directory"
        )
