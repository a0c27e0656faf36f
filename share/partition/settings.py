"""The settings of a share partition. A group may override the settings of the broker."""

from __future__ import annotations

from protocol.slotted import slotted


@slotted(frozen=True)
class ShareSettings:
    """The limits of deliveries. The defaults are those of Kafka 4.3.1."""

    lock_duration_ms: int = 30_000
    """How long a member may hold an acquired record: share.record.lock.duration.ms."""
    delivery_count_limit: int = 5
    """How often a record is delivered before it is archived: share.delivery.count.limit."""
    max_record_locks: int = 2_000
    """How many records may be in flight: share.partition.max.record.locks."""
