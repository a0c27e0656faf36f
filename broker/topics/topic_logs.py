"""A topic as this broker has it: its settings, and those of its partitions that are here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from broker.topics.partition import Partition
from broker.topics.registry import Topic
from protocol.records.produce_rules import ProduceRules


class TopicLogs:
    """A topic with its partitions, and what its settings mean to handlers."""

    __slots__ = (
        "by_index",
        "bytes_in",
        "bytes_out",
        "partition",
        "partitions",
        "rules",
        "settings",
        "topic",
    )

    def __init__(self, topic: Topic, settings: dict[str, Any], rules: ProduceRules) -> None:
        self.topic = topic
        self.settings = settings
        self.rules = rules
        self.partitions: list[Partition] = []
        """The partitions with a replica here, in the order of their indexes; `add` and `remove`
        write it. In a cluster the topic may have more."""
        self.by_index: dict[int, Partition] = {}
        """The same by their indexes."""
        self.partition: Callable[[int], Partition | None] = self.by_index.get
        """One of its partitions by its index, None where it has no replica here."""
        self.bytes_in = 0
        """Bytes of batches that producers appended since the process began."""
        self.bytes_out = 0
        """Bytes of batches that consumers were given."""

    def add(self, partitions: Iterable[Partition]) -> None:
        """Partitions that have a replica here from now on."""
        for each in partitions:
            self.by_index[each.index] = each
        self.partitions[:] = [self.by_index[index] for index in sorted(self.by_index)]

    def remove(self, index: int) -> None:
        """A partition that has no replica here any more."""
        del self.by_index[index]
        self.partitions[:] = [each for each in self.partitions if each.index != index]
