"""The producer ids that are at hand: the edge reserves them in blocks, cores take them.

Shared by all shards of a broker and by producers without a transactional id. Pure: who reserves
reads ``left``, and hands a block over when it is written down.
"""

from __future__ import annotations

from collections import deque

REFILL_BELOW = 100
"""Another block is wanted when so few are left: 90 % of Kafka's 1000 are used then."""


class ProducerIds:
    """Ids in the order in which they were reserved; each is given once."""

    __slots__ = ("_blocks", "left")

    def __init__(self) -> None:
        self._blocks: deque[range] = deque()
        self.left = 0
        """How many are at hand; another block is wanted below `REFILL_BELOW`."""

    def add(self, block: range) -> None:
        """Takes a block that nobody else will get."""
        self._blocks.append(block)
        self.left += len(block)

    def take(self) -> int | None:
        """The next id; None when none is at hand, which is COORDINATOR_LOAD_IN_PROGRESS (14)."""
        while self._blocks:
            block = self._blocks.popleft()
            if block:
                if len(block) > 1:
                    self._blocks.appendleft(block[1:])
                self.left -= 1
                return block[0]
        return None
