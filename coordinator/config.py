"""The settings that the core reads, as plain integers; the broker validates the settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import NamedTuple

from protocol.slotted import slotted

DISABLED, DOWNGRADE, UPGRADE, BIDIRECTIONAL = "disabled", "downgrade", "upgrade", "bidirectional"
UPGRADES = (UPGRADE, BIDIRECTIONAL)
"""Values of group.consumer.migration.policy with which classic groups become consumer groups."""
DOWNGRADES = (DOWNGRADE, BIDIRECTIONAL)
"""Values of group.consumer.migration.policy with which consumer groups become classic groups."""


class ConsumerSettings(NamedTuple):
    """The settings of one consumer group, in milliseconds."""

    session_timeout_ms: int = 45_000
    """consumer.session.timeout.ms"""
    heartbeat_interval_ms: int = 5_000
    """consumer.heartbeat.interval.ms"""
    assignment_interval_ms: int = 1_000
    """consumer.assignment.interval.ms (KIP-1263): the minimum time between two target assignments;
    0: each change computes a target."""


class ShareSettings(NamedTuple):
    """The settings of one share group, in milliseconds."""

    session_timeout_ms: int = 45_000
    """share.session.timeout.ms"""
    heartbeat_interval_ms: int = 5_000
    """share.heartbeat.interval.ms"""
    assignment_interval_ms: int = 1_000
    """share.assignment.interval.ms (KIP-1263): the minimum time between two target assignments; 0:
    each change computes a target."""


class StreamsSettings(NamedTuple):
    """The settings of one streams group; times in milliseconds."""

    session_timeout_ms: int = 45_000
    """streams.session.timeout.ms"""
    heartbeat_interval_ms: int = 5_000
    """streams.heartbeat.interval.ms"""
    assignment_interval_ms: int = 1_000
    """streams.assignment.interval.ms (KIP-1263): the minimum time between two target assignments;
    0: each change computes a target."""
    num_standby_replicas: int = 0
    """streams.num.standby.replicas: the number of standby tasks of each stateful task."""
    initial_rebalance_delay_ms: int = 3_000
    """streams.initial.rebalance.delay.ms: how long an empty group waits for more members before
    tasks are assigned."""


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
    """How long a new member's first JoinGroup may stay parked; Kafka has a constant of five
    minutes."""
    offset_metadata_max_bytes: int = 4096
    """offset.metadata.max.bytes. As in Kafka, the limit is compared with the number of characters.
    """
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    """offsets.retention.minutes"""
    commit_retention_ms: int = -1
    """The retention in ms of a commit that does not set a retention. In a cluster with brokers
    before 2.1, which treat an offset without an expiry as expired, this is
    offsets.retention.minutes; otherwise -1, so that the commit has no expiry."""
    static_members: bool = True
    """Whether members may be static; false in a cluster with brokers before 2.3, which do not
    support KIP-345."""
    offsets_retention_check_interval_ms: int = 600_000
    """offsets.retention.check.interval.ms"""
    fetch_counts_as_activity: bool = False
    """group.offsets.fetch.counts.as.activity"""
    consumer: ConsumerSettings = ConsumerSettings()
    """group.consumer.*: the settings of consumer groups that have no group-specific settings."""
    own_consumer: Mapping[str, ConsumerSettings] = field(default_factory=dict)
    """The settings of groups that have group-specific settings, by group id."""
    consumer_max_size: int = 2**31 - 1
    """group.consumer.max.size"""
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    """group.consumer.assignors"""
    consumer_rebalance_heartbeat_interval_ms: int = 0
    """group.consumer.rebalance.heartbeat.interval.ms; 0: off, as in Kafka."""
    consumer_migration_policy: str = BIDIRECTIONAL
    """group.consumer.migration.policy, in lower case"""
    share: ShareSettings = ShareSettings()
    """group.share.*: the settings of share groups that have no group-specific settings."""
    own_share: Mapping[str, ShareSettings] = field(default_factory=dict)
    """The settings of share groups that have group-specific settings, by group id."""
    share_max_size: int = 200
    """group.share.max.size"""
    share_initialize_retry_ms: int = 30_000
    """group.share.initialize.retry.interval.ms, an internal property of Kafka: the time after which
    an initialization that has not ended is repeated."""
    streams: StreamsSettings = StreamsSettings()
    """group.streams.*: the settings of streams groups that have no group-specific settings."""
    own_streams: Mapping[str, StreamsSettings] = field(default_factory=dict)
    """The settings of streams groups that have group-specific settings, by group id."""
    streams_max_size: int = 2**31 - 1
    """group.streams.max.size"""
    max_record_bytes: int = 1_048_588
    """max.message.bytes of ``__consumer_offsets``: the largest batch, its header included."""

    def heartbeat_interval_ms(self, group_id: str, target_age_ms: int) -> int:
        """Returns the time until the next heartbeat of a member whose group has a target assignment
        of this age.

        After a new target the members send heartbeats at short and growing intervals, so that they
        soon give up and get partitions. Kafka's interval is constant.
        """
        interval_ms = self.of_group(group_id).heartbeat_interval_ms
        if self.consumer_rebalance_heartbeat_interval_ms and 0 <= target_age_ms < interval_ms:
            shortest_ms = self.consumer_rebalance_heartbeat_interval_ms
            return min(interval_ms, max(shortest_ms, target_age_ms))
        return interval_ms

    def of_group(self, group_id: str) -> ConsumerSettings:
        """The settings of one consumer group."""
        return self.own_consumer.get(group_id, self.consumer)

    def of_share_group(self, group_id: str) -> ShareSettings:
        """The settings of one share group."""
        return self.own_share.get(group_id, self.share)

    def of_streams_group(self, group_id: str) -> StreamsSettings:
        """The settings of one streams group."""
        return self.own_streams.get(group_id, self.streams)
