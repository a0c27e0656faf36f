"""The settings of a share partition. A group may override the settings of the broker."""

from __future__ import annotations

from protocol.slotted import slotted


@slotted(frozen=True)
class ShareSettings:
    """The limits of deliveries. The defaults are those of Kafka 4.3.1."""

    lock_duration_ms: int = 30_000
    """share.record.lock.duration.ms: the duration of an acquisition lock."""
    delivery_count_limit: int = 5
    """share.delivery.count.limit: the number of deliveries after which a record is archived."""
    max_record_locks: int = 2_000
    """share.partition.max.record.locks: the maximum number of records in flight."""
