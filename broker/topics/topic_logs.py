"""A topic as this broker has it: its settings, and those of its partitions that are here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Any

from broker.topics.partition import Partition
from broker.topics.registry import Topic
from protocol.records.produce_rules import ProduceRules
from protocol.slotted import slotted


@slotted
class TopicLogs:
    """A topic with its partitions, and what its settings mean to handlers."""

    topic: Topic
    settings: dict[str, Any]
    rules: ProduceRules
    partitions: list[Partition] = field(default_factory=list)
    """Those that have a replica here, in the order of their indexes; `add` and `remove` write it.
    In a cluster they need not be all that the topic has."""
    bytes_in: int = 0
    """Bytes of batches that producers appended since the process began."""
    bytes_out: int = 0
    """Bytes of batches that consumers were given."""
    by_index: dict[int, Partition] = field(default_factory=dict)
    """The same by their indexes: who has the index of a partition looks here."""

    def partition(self, index: int) -> Partition | None:
        """One of its partitions, None where it has no replica here."""
        return self.by_index.get(index)

    def add(self, partitions: Iterable[Partition]) -> None:
        """Partitions that have a replica here from now on."""
        for each in partitions:
            self.by_index[each.index] = each
        self.partitions[:] = [self.by_index[index] for index in sorted(self.by_index)]

    def remove(self, index: int) -> None:
        """A partition that has no replica here any more."""
        del self.by_index[index]
        self.partitions[:] = [each for each in self.partitions if each.index != index]
