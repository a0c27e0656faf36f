"""Strays: directories of partitions whose topic was deleted and recreated while this broker was
down. The cluster now has a topic with the same name and another id. The next start renames these
directories, as Kafka does. It never removes them, since an operator may need the records."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping

import structlog

from broker.topics.directory.partition_mark import mark_of
from broker.topics.registry import Topic, partition_name, partition_of, uuid_text
from log.checkpoint import TopicPartition
from log.files.filesystem import FileSystem
from protocol.schema import ZERO_UUID

logger = structlog.get_logger(__name__)

STRAY_SUFFIX = "-stray"


def put_strays_aside(
    fs: FileSystem,
    directory: str,
    topics: Mapping[str, Topic],
    forget: Callable[[Collection[TopicPartition]], None],
) -> int:
    """Renames each directory whose topic id differs from the id of the existing topic. Returns the
    number of renamed directories. Raises OSError.

    ``forget`` removes the partitions from the checkpoints before the renames, so that no later
    start reports them as missing.
    """
    strays: dict[TopicPartition, bytes] = {}
    for name in fs.list(directory):
        place = partition_of(name)
        topic = None if place is None else topics.get(place[0])
        if place is None or topic is None or topic.topic_id == ZERO_UUID:
            continue
        found = mark_of(fs, os.path.join(directory, name))
        if found is not None and found != topic.topic_id:
            strays[place] = found
    if strays:
        forget(strays.keys())
    for (topic_name, index), topic_id in strays.items():
        name = partition_name(topic_name, index)
        aside = f"{partition_name(topic_name[:190], index)}.{topic_id.hex()}{STRAY_SUFFIX}"
        fs.rename(os.path.join(directory, name), os.path.join(directory, aside))
        logger.warning(
            "directory of a stray partition renamed: its topic was recreated",
            directory=aside,
            topic_id=uuid_text(topic_id),
            topic_id_now=uuid_text(topics[topic_name].topic_id),
        )
    if strays:
        fs.fsync_directory(directory)
    return len(strays)


def put_away_among(
    fs: FileSystem, directory: str, names: Iterable[str], topics: Mapping[str, Topic], suffix: str
) -> list[str]:
    """Returns the partitions, such as orders-0, whose replicas in the data directory ``directory``
    were deleted. ``names`` has all names in this directory. After its deletion, the name of a
    replica's directory ends with ``suffix``.

    A checkpoint may still list such a partition if the disk was full at the deletion. Deleted
    replicas of an earlier topic with the same name are left out, so that missing partitions of the
    recreated topic are reported.
    """
    found = []
    for name in names:
        away = name.rpartition(".")[0] if name.endswith(suffix) else ""
        place = partition_of(away)
        topic = None if place is None else topics.get(place[0])
        if topic is not None:
            topic_id = mark_of(fs, os.path.join(directory, name)) or ZERO_UUID
            if topic_id == topic.topic_id:
                found.append(away)
    return found


def strays_among(names: Iterable[str], is_here: Callable[[str, int], bool]) -> list[str]:
    """Returns the names of directories with the suffix of strays, and of partitions that have no
    replica on this broker. ``is_here`` returns True if a partition has a replica here."""
    found = []
    for name in names:
        place = partition_of(name)
        if name.endswith(STRAY_SUFFIX) or (place is not None and not is_here(*place)):
            found.append(name)
    return sorted(found)
