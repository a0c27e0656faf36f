"""Counters of replication on this broker, for the metrics."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from replication.values import PartitionState


@dataclass(slots=True)
class ReplicationTotals:
    """Counters of replication since the broker's process began."""

    bytes_in: int = 0
    """The number of bytes of record batches that followers on this broker have fetched."""
    bytes_out: int = 0
    """The number of bytes of record batches that were sent to followers."""
    reassignment_bytes_in: int = 0
    """The part of `bytes_in` that was fetched for replicas that a reassignment is adding on this
    broker."""
    reassignment_bytes_out: int = 0
    """The part of `bytes_out` that was sent to replicas that a reassignment is adding on other
    brokers."""
    shrinks: int = 0
    """The number of ISR changes of led partitions that removed replicas."""
    expands: int = 0
    failed_changes: int = 0

    def taken(self, state: PartitionState | None, node_id: int, size_bytes: int) -> None:
        self.bytes_in += size_bytes
        if state is not None and node_id in state.adding:
            self.reassignment_bytes_in += size_bytes

    def given(self, state: PartitionState | None, replica_id: int, size_bytes: int) -> None:
        self.bytes_out += size_bytes
        if state is not None and replica_id in state.adding:
            self.reassignment_bytes_out += size_bytes

    def isr_changed(self, before: Collection[int], after: Collection[int]) -> None:
        self.shrinks += len(after) < len(before)
        self.expands += len(after) > len(before)
