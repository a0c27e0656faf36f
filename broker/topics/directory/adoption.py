"""Adopts topics that exist only as directories, because another broker used the data directory
before. A topic with a missing partition is not adopted. The checkpoints of Apache Kafka and gaps in
the partition numbers show which partitions existed (`broker/topics/directory/missing.py`)."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping

from broker.topics.checkpoints import Checkpoints
from broker.topics.directory.missing import TOPICS_FILE, KnownMissing, check_adopted, check_numbers
from broker.topics.directory.partition_mark import FILE as MARK_FILE
from broker.topics.registry import BadDirectory, Topic, partition_of, uuid_bytes
from log.files.filesystem import FileSystem, read_whole
from protocol.properties import parse
from protocol.topic_names import check_topic_name

KEEP_ALL = {"retention.bytes": "-1", "retention.ms": "-1"}
"""Settings that disable retention for an adopted topic, because the former retention of the topic
is unknown."""


class Found:
    """Reads the topics in one data directory without writing anything."""

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        new_id: Callable[[], bytes],
        internal_configs: Mapping[str, Mapping[str, str]],
    ) -> None:
        self._fs = fs
        self._directory = directory
        self._new_id = new_id
        self._internal_configs = internal_configs

    def topics(self, listed: Collection[str], missing: KnownMissing) -> list[Topic]:
        """Returns the topics on disk whose names are not in ``listed``. Raises BadDirectory."""
        names = self._fs.list(self._directory)
        found: dict[str, list[int]] = {}
        for name in names:
            place = partition_of(name)
            if place and place[0] not in listed and self._is_partition(name):
                found.setdefault(place[0], []).append(place[1])
        for name, partitions in sorted(found.items()):
            check_numbers(self._directory, name, partitions, missing)
        no_list = TOPICS_FILE not in names
        if found or no_list:
            checkpoints = Checkpoints(self._fs, self._directory)
            checkpoints.read()
            counts = {name: max(partitions) + 1 for name, partitions in found.items()}
            check_adopted(self._directory, names, checkpoints.named(), counts, no_list, missing)
        return [
            Topic(
                name,
                self._id_on_disk(name, partitions),
                max(partitions) + 1,
                self._internal_configs.get(name, KEEP_ALL),
            )
            for name, partitions in sorted(found.items())
        ]

    def _is_partition(self, name: str) -> bool:
        place = partition_of(name)
        if place is None or place[0] == "__cluster_metadata":
            return False
        try:
            check_topic_name(place[0])
            names = self._fs.list(os.path.join(self._directory, name))
        except (ValueError, NotADirectoryError):
            return False
        return any(inside.endswith(".log") for inside in names)

    def _id_on_disk(self, name: str, partitions: Iterable[int]) -> bytes:
        """Returns the topic id in the partitions' directories. If the directories contain no id, as
        before Kafka 2.8, returns a new id."""
        ids = {
            topic_id
            for partition in partitions
            if (topic_id := self._id_of_partition(name, partition)) is not None
        }
        if len(ids) > 1:
            raise BadDirectory(
                f"the directories of topic {name} have different topic ids in {MARK_FILE}:"
                " move the directories of the wrong topic away"
            )
        return ids.pop() if ids else self._new_id()

    def _id_of_partition(self, name: str, partition: int) -> bytes | None:
        """Returns the topic id in a partition's directory; None if the directory has no
        `MARK_FILE`."""
        path = os.path.join(self._directory, f"{name}-{partition}", MARK_FILE)
        if not self._fs.exists(path):
            return None
        pairs = parse(read_whole(self._fs, path).decode())
        try:
            return uuid_bytes(pairs["topic_id"])
        except (KeyError, ValueError):
            raise BadDirectory(
                f"{path} is damaged: the file contains no topic id; restore it from a copy"
            ) from None
