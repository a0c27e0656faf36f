"""The settings that the core reads, as plain integers; the broker validates the settings."""

from __future__ import annotations

from protocol.slotted import slotted


@slotted(frozen=True)
class GroupConfig:
    """Settings of groups and offsets; times in milliseconds, defaults are Kafka's."""

    min_session_timeout_ms: int = 6_000
    """group.min.session.timeout.ms"""
    max_session_timeout_ms: int = 1_800_000
    """group.max.session.timeout.ms"""
    initial_rebalance_delay_ms: int = 3_000
    """group.initial.rebalance.delay.ms: how long an empty group waits for more members."""
    join_coalescing_ms: int = 0
    """group.join.coalescing.ms: how long a rebalance that was caused by a join waits for more
    joins; 0: off."""
    max_size: int = 2**31 - 1
    """group.max.size: the maximum number of members of a group."""
    new_member_join_timeout_ms: int = 300_000
    """How long a new member's first JoinGroup may stay parked; Kafka fixes it at five minutes."""
    offset_metadata_max_bytes: int = 4096
    """offset.metadata.max.bytes; counted in characters, as Kafka does."""
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    """offsets.retention.minutes"""
    commit_retention_ms: int = -1
    """Retention in ms of a commit that sets none: offsets.retention.minutes in a cluster with
    brokers before 2.1, which treat an offset without an expiry as expired; else -1, no expiry."""
    static_members: bool = True
    """Whether members may be static; false in a cluster with brokers before 2.3, which do not
    support KIP-345."""
    offsets_retention_check_interval_ms: int = 600_000
    """offsets.retention.check.interval.ms"""
    fetch_counts_as_activity: bool = False
    """group.offsets.fetch.counts.as.activity"""
    max_record_bytes: int = 1_048_588
    """max.message.bytes of ``__consumer_offsets``: the largest batch, its header included."""
