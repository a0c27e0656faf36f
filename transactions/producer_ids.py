"""The producer ids that this broker has reserved in blocks. The shards take them one by one.

All shards of the broker and all producers without a transactional id use the same reserved ids. The
broker reserves another block when few ids are left, and adds the block when its reservation is
stored.
"""

from __future__ import annotations

from collections import deque

REFILL_BELOW = 100
"""If fewer producer ids than this number are left, another block is reserved. In Kafka a block has
1000 ids, so 90 % of its ids have then been used."""


class ProducerIds:
    """Reserved producer ids, in the order of their reservation. Each id is used once."""

    __slots__ = ("_blocks", "left")

    def __init__(self) -> None:
        self._blocks: deque[range] = deque()
        self.left = 0
        """The number of reserved ids that are not yet used. If this number is below `REFILL_BELOW`,
        another block is needed."""

    def add(self, block: range) -> None:
        """Adds a block of producer ids that only this broker has reserved."""
        self._blocks.append(block)
        self.left += len(block)

    def take(self) -> int | None:
        """Removes and returns the next id, or returns None if no id is left. The client then
        receives COORDINATOR_LOAD_IN_PROGRESS (14)."""
        while self._blocks:
            block = self._blocks.popleft()
            if block:
                if len(block) > 1:
                    self._blocks.appendleft(block[1:])
                self.left -= 1
                return block[0]
        return None
