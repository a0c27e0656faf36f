"""A topic on this broker: its settings, and the partitions that have a replica on this broker."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from broker.topics.partition import Partition
from broker.topics.registry import Topic
from protocol.records.produce_rules import ProduceRules


class TopicLogs:
    """A topic on this broker: its settings, and the partitions that have a replica on this
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
        """The partitions that have a replica on this broker, ordered by index; only `add` and
        `remove` change the list. In a cluster the topic may have more partitions."""
        self.by_index: dict[int, Partition] = {}
        """The partitions of `partitions`, by index."""
        self.partition: Callable[[int], Partition | None] = self.by_index.get
        """A function that returns the partition with an index; None if this broker has no replica
        of the partition."""
        self.bytes_in = 0
        """The number of bytes of batches that producers have appended since the process began."""
        self.bytes_out = 0
        """The number of bytes of batches that were sent to consumers since the process began."""

    def add(self, partitions: Iterable[Partition]) -> None:
        """Adds partitions for which this broker now has a replica."""
        for each in partitions:
            self.by_index[each.index] = each
        self.partitions[:] = [self.by_index[index] for index in sorted(self.by_index)]

    def remove(self, index: int) -> None:
        """Removes a partition of which this broker no longer has a replica."""
        del self.by_index[index]
        self.partitions[:] = [each for each in self.partitions if each.index != index]
