"""A topic on this broker: its settings, and its partitions that have a replica on this broker."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from broker.topics.partition import Partition
from broker.topics.registry import Topic
from protocol.records.produce_rules import ProduceRules


class TopicLogs:
    """A topic on this broker: its settings, and its partitions that have a replica on this
    broker."""

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
        """The partitions with a replica on this broker, ordered by index. In a cluster the topic
        may have more partitions. Only `add` and `remove` change the list."""
        self.by_index: dict[int, Partition] = {}
        self.partition: Callable[[int], Partition | None] = self.by_index.get
        """A function that returns the partition with the given index; None if this broker has no
        replica of it."""
        self.bytes_in = 0
        """The number of bytes of batches that producers have appended since the process began."""
        self.bytes_out = 0
        """The number of bytes of batches that were sent to consumers since the process began."""

    def add(self, partitions: Iterable[Partition]) -> None:
        for each in partitions:
            self.by_index[each.index] = each
        self.partitions[:] = [self.by_index[index] for index in sorted(self.by_index)]

    def remove(self, index: int) -> None:
        del self.by_index[index]
        self.partitions[:] = [each for each in self.partitions if each.index != index]
