"""The progress of a topic's and an owner's other partitions while one partition is stuck."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TypeVar

from verdicts.facts import PartitionFacts

Key = TypeVar("Key")


class Others:
    """The progress of the partitions of a group, per owner and topic; computed once per
    judgement."""

    def __init__(
        self,
        partitions: Iterable[PartitionFacts],
        stands: Callable[[PartitionFacts], bool],
        backlog_before_ms: int,
    ) -> None:
        self.unread: Counter[tuple[str | None, str]] = Counter()
        """The number of partitions with unread records, by owner and topic."""
        self.moved: dict[str, int] = {}
        """For each topic: when the committed offset of one of its partitions last moved."""
        self.read_to: dict[tuple[str | None, str], int] = {}
        """The record time up to which an owner has read a topic's partitions, by owner and topic;
        only partitions whose offsets move count."""
        self.catching_up: dict[str | None, int] = {}
        """For each owner: when the offset of a partition with old unread records last moved."""
        for each in partitions:
            place = (each.owner, each.topic)
            if each.unread:
                self.unread[place] += 1
            if each.moved_ms is None or each.above or (each.unread and stands(each)):
                continue  # the partition's offset does not move, or its client reads nothing
            _raise(self.moved, each.topic, each.moved_ms)
            oldest_ms = each.unread_since_ms or 0
            _raise(
                self.read_to,
                place,
                min(each.moved_ms, oldest_ms) if each.unread else each.moved_ms,
            )
            if each.unread and oldest_ms < backlog_before_ms:
                _raise(self.catching_up, each.owner, each.moved_ms)


def _raise(most: dict[Key, int], key: Key, value: int) -> None:
    most[key] = max(most.get(key, 0), value)
