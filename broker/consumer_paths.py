"""Offsets the old way: what ZooKeeper's consumer paths held, for OffsetCommit and OffsetFetch v0.

A cluster keeps them in ZooKeeper, at ``/consumers/GROUP/offsets/TOPIC/PARTITION``; a broker on its
own keeps the same in ``consumers.offsets`` of its data directory: a line of JSON for each commit of
a partition, ``["group", "topic", partition, offset]``, the last one of a key being its value
(docs/registry.md). These offsets and those of ``__consumer_offsets`` never mix: they have no
metadata, no expiry and no generation. Source: Kafka 0.8.1 to 1.0, KafkaApis.handleOffsetCommit.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

from broker.registry import BadDirectory, ConsumerPaths
from log.filesystem import File, FileSystem, read_whole, write_whole

FILE = "consumers.offsets"
_REWRITE_LINES_MIN = 10_000
"""Below this many lines the file is not worth writing anew."""


class FileConsumerPaths(ConsumerPaths):
    """See `ConsumerPaths`: an append-only file, folded into memory when it is opened.

    Raises BadDirectory when the file holds what no Muster wrote.
    """

    def __init__(self, fs: FileSystem, directory: str) -> None:
        self._fs = fs
        self._path = os.path.join(directory, FILE)
        self._offsets: dict[tuple[str, str, int], int] = {}
        self._lines = 0
        self._file: File | None = None
        self._size = 0
        if fs.exists(self._path):
            self._read()

    def commit(self, group_id: str, topic: str, partition: int, offset: int) -> None:
        """See ConsumerPaths."""
        if self._file is None:
            self._file = self._fs.open(self._path, create=True)
            self._size = self._file.size()
        line = _line(group_id, topic, partition, offset)
        try:
            self._file.write(self._size, line)
        except OSError:
            self._file.truncate(self._size)  # half a line would make the next one unreadable
            raise
        self._size += len(line)
        self._lines += 1
        self._offsets[group_id, topic, partition] = offset

    def fetch(self, group_id: str, topic: str, partition: int) -> int | None:
        """See ConsumerPaths."""
        return self._offsets.get((group_id, topic, partition))

    def entries(self) -> Iterator[tuple[str, str, int, int]]:
        """Every (group, topic, partition, offset)."""
        for (group_id, topic, partition), offset in self._offsets.items():
            yield group_id, topic, partition, offset

    def _read(self) -> None:
        data = read_whole(self._fs, self._path)
        whole, _, torn = data.rpartition(b"\n")
        for number, line in enumerate(whole.splitlines(), 1):
            group_id, topic, partition, offset = self._parse(line, number)
            self._offsets[group_id, topic, partition] = offset
            self._lines = number
        if torn or self._lines > max(_REWRITE_LINES_MIN, 2 * len(self._offsets)):
            self._rewrite()

    def _parse(self, line: bytes, number: int) -> tuple[str, str, int, int]:
        try:
            group_id, topic, partition, offset = json.loads(line)
        except ValueError:
            raise BadDirectory(f"{self._path} is damaged in line {number}") from None
        if not (isinstance(group_id, str) and isinstance(topic, str)):
            raise BadDirectory(f"{self._path} is damaged in line {number}")
        return group_id, topic, int(partition), int(offset)

    def _rewrite(self) -> None:
        """One line for each key, in place of the file, or nothing of it is changed."""
        write_whole(self._fs, self._path, b"".join(_line(*entry) for entry in self.entries()))
        self._lines = len(self._offsets)


def _line(group_id: str, topic: str, partition: int, offset: int) -> bytes:
    return json.dumps([group_id, topic, partition, offset]).encode() + b"\n"
