"""The progress of a group's other partitions, for the comparison with a stuck partition: partitions
of the same topic, and partitions of the same owner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TypeVar

from verdicts.facts import PartitionFacts

Key = TypeVar("Key")


class Others:
    """The progress of a group's partitions by owner and topic, computed once for each judgement of
    the group."""

    def __init__(
        self,
        partitions: Iterable[PartitionFacts],
        stands: Callable[[PartitionFacts], bool],
        backlog_before_ms: int,
    ) -> None:
        self.unread: Counter[tuple[str | None, str]] = Counter()
        self.moved: dict[str, int] = {}
        """By topic: the time in ms of the last change of a committed offset."""
        self.read_to: dict[tuple[str | None, str], int] = {}
        """By owner and topic: the latest time in ms of the records that the owner has read, over
        all partitions of the topic. Stuck partitions are ignored."""
        self.catching_up: dict[str | None, int] = {}
        """By owner: the last time in ms at which a committed offset of this owner changed in a
        partition whose unread records are old."""
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
