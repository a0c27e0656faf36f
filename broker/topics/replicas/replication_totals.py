"""Counts of this broker's replicas, sent, received and changed: plain numbers for the scrape."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from replication.values import PartitionState


@dataclass(slots=True)
class ReplicationTotals:
    """Counted since the process began."""

    bytes_in: int = 0
    """Bytes of batches that replicas here took from their leaders."""
    bytes_out: int = 0
    """Bytes of batches that followers were given."""
    reassignment_bytes_in: int = 0
    """The part of them for a replica that a reassignment adds."""
    reassignment_bytes_out: int = 0
    shrinks: int = 0
    """How often a leader here has taken replicas out of the in-sync ones."""
    expands: int = 0
    failed_changes: int = 0
    """How often other in-sync replicas were wanted and refused."""

    def taken(self, state: PartitionState | None, node_id: int, size_bytes: int) -> None:
        """A replica here has appended what its leader has."""
        self.bytes_in += size_bytes
        if state is not None and node_id in state.adding:
            self.reassignment_bytes_in += size_bytes

    def given(self, state: PartitionState | None, replica_id: int, size_bytes: int) -> None:
        """A follower gets batches of a partition that is led here."""
        self.bytes_out += size_bytes
        if state is not None and replica_id in state.adding:
            self.reassignment_bytes_out += size_bytes

    def isr_changed(self, before: Collection[int], after: Collection[int]) -> None:
        """The in-sync replicas of a partition that is led here are others now."""
        self.shrinks += len(after) < len(before)
        self.expands += len(after) > len(before)
