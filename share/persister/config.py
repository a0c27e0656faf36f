"""The settings that a shard of the share coordinator reads, in Kafka's units."""

from __future__ import annotations

from protocol.slotted import slotted


@slotted(frozen=True)
class ShareStateConfig:
    """The settings of a shard. The defaults are Kafka's."""

    updates_per_snapshot: int = 500
    """share.coordinator.snapshot.update.records.per.snapshot"""
    cold_snapshot_interval_ms: int = 300_000
    """share.coordinator.cold.partition.snapshot.interval.ms"""
    max_record_bytes: int = 1_048_588
    """max.message.bytes of ``__share_group_state``: the maximum size of a batch."""
