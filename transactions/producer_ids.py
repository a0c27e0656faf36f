"""The producer ids in reserve: the edge reserves blocks of them, the cores use them one by one.

All shards of a broker and producers without a transactional id share them. Pure: the edge reads
``left``, and adds a block when its reservation is stored.
"""

from __future__ import annotations

from collections import deque

REFILL_BELOW = 100
"""Another block is reserved when fewer are left: 90 % of Kafka's block of 1000 are used then."""


class ProducerIds:
    """Producer ids in the order in which they were reserved; each is used once."""

    __slots__ = ("_blocks", "left")

    def __init__(self) -> None:
        self._blocks: deque[range] = deque()
        self.left = 0
        """The number of ids in reserve; another block is needed below `REFILL_BELOW`."""

    def add(self, block: range) -> None:
        """Adds a block that only this broker has reserved."""
        self._blocks.append(block)
        self.left += len(block)

    def take(self) -> int | None:
        """Takes the next id; None if none is left, which clients see as
        COORDINATOR_LOAD_IN_PROGRESS (14).
        """
        while self._blocks:
            block = self._blocks.popleft()
            if block:
                if len(block) > 1:
                    self._blocks.appendleft(block[1:])
                self.left -= 1
                return block[0]
        return None
