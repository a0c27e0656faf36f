"""The reserved producer ids: the broker reserves blocks of ids, and the shards use the ids one by
one.

All shards of a broker and the producers without a transactional id use the same reserved ids. The
broker reads ``left``, and adds a block when the reservation of the block is stored.
"""

from __future__ import annotations

from collections import deque

REFILL_BELOW = 100
"""Another block is reserved when fewer ids than this are left: 90 % of Kafka's block of 1000 ids
are then used."""


class ProducerIds:
    """Reserved producer ids in the order in which they were reserved; each id is used once."""

    __slots__ = ("_blocks", "left")

    def __init__(self) -> None:
        self._blocks: deque[range] = deque()
        self.left = 0
        """The number of reserved ids that are left; below `REFILL_BELOW` another block is needed.
        """

    def add(self, block: range) -> None:
        """Adds a block that only this broker has reserved."""
        self._blocks.append(block)
        self.left += len(block)

    def take(self) -> int | None:
        """Removes and returns the next id; None if no id is left. Clients then get
        COORDINATOR_LOAD_IN_PROGRESS (14)."""
        while self._blocks:
            block = self._blocks.popleft()
            if block:
                if len(block) > 1:
                    self._blocks.appendleft(block[1:])
                self.left -= 1
                return block[0]
        return None
