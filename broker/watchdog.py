"""The watchdog: which pieces of work held the loop for longer than law 9 allows, by name.

While a piece of work holds the event loop, no other client is served. Whoever runs such a piece
measures it and reports it here; nothing is measured twice and nothing by sampling. A piece is
named after what the operator knows: an API's name, or what the broker does by itself.
"""

from __future__ import annotations

from collections import defaultdict

import structlog

logger = structlog.get_logger(__name__)

HELD_NS_MAX = 20_000_000
"""Pieces above this are counted. The law says 10 ms; a busy machine doubles what is measured."""
LOGGED_NS = 200_000_000
"""Pieces above this get a line in the log."""


class Watchdog:
    """Counts the pieces that were too long; use from the event loop's thread alone."""

    def __init__(self) -> None:
        self.counts: defaultdict[str, int] = defaultdict(int)
        """Name to how many pieces held the loop for longer than `HELD_NS_MAX`."""
        self.longest_ns: defaultdict[str, int] = defaultdict(int)
        """Name to the longest of them."""

    def held(self, name: str, held_ns: int) -> None:
        """Take in that the piece ``name`` held the loop for ``held_ns``; short ones are ignored."""
        if held_ns <= HELD_NS_MAX:
            return
        self.counts[name] += 1
        self.longest_ns[name] = max(self.longest_ns[name], held_ns)
        if held_ns > LOGGED_NS:
            logger.warning(
                "a piece of work held up all clients", work=name, held_ms=held_ns // 1_000_000
            )
