"""The topics and groups of the simulation of share groups."""

from __future__ import annotations

Place = tuple[str, int]
STREAM, TXN, KEPT, FLEETING = "stream", "txn", "kept", "fleeting"
PARTITIONS = {STREAM: 2, TXN: 2, KEPT: 1, FLEETING: 1}
STABLE: tuple[Place, ...] = ((STREAM, 0), (STREAM, 1), (TXN, 0), (TXN, 1), (KEPT, 0))
"""Partitions of the topics that are never deleted."""
GROUPS = {"plain": [STREAM, KEPT, FLEETING], "committed": [TXN, STREAM], "all": [TXN, KEPT]}
"""The topics that each share group reads. Group ``committed`` uses isolation level
read_committed."""
COMMITTED = "committed"
