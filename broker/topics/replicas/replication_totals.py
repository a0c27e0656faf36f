"""Counters of replication on this broker, for the metrics."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from replication.values import PartitionState


@dataclass(slots=True)
class ReplicationTotals:
    """Counters since the process began."""

    bytes_in: int = 0
    """Bytes of batches that followers on this broker have fetched."""
    bytes_out: int = 0
    """Bytes of batches sent to followers."""
    reassignment_bytes_in: int = 0
    """The part of `bytes_in` for replicas that a reassignment adds."""
    reassignment_bytes_out: int = 0
    """The part of `bytes_out` for replicas that a reassignment adds."""
    shrinks: int = 0
    """ISR changes by leaders on this broker that removed replicas."""
    expands: int = 0
    failed_changes: int = 0
    """ISR changes that were rejected."""

    def taken(self, state: PartitionState | None, node_id: int, size_bytes: int) -> None:
        """Counts batches that a follower on this broker has appended."""
        self.bytes_in += size_bytes
        if state is not None and node_id in state.adding:
            self.reassignment_bytes_in += size_bytes

    def given(self, state: PartitionState | None, replica_id: int, size_bytes: int) -> None:
        """Counts batches sent to a follower."""
        self.bytes_out += size_bytes
        if state is not None and replica_id in state.adding:
            self.reassignment_bytes_out += size_bytes

    def isr_changed(self, before: Collection[int], after: Collection[int]) -> None:
        """Counts an ISR change of a partition that this broker leads."""
        self.shrinks += len(after) < len(before)
        self.expands += len(after) > len(before)
