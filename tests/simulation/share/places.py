"""The topics and groups of the world."""

from __future__ import annotations

Place = tuple[str, int]
STREAM, TXN, KEPT, FLEETING = "stream", "txn", "kept", "fleeting"
PARTITIONS = {STREAM: 2, TXN: 2, KEPT: 1, FLEETING: 1}
STABLE: tuple[Place, ...] = ((STREAM, 0), (STREAM, 1), (TXN, 0), (TXN, 1), (KEPT, 0))
"""The partitions that are never deleted."""
GROUPS = {"plain": [STREAM, KEPT, FLEETING], "committed": [TXN, STREAM], "all": [TXN, KEPT]}
"""The groups with their topics; the group ``committed`` reads with read_committed."""
COMMITTED = "committed"
