"""The settings that the group coordinator reads, as plain integers. The broker has validated
them."""

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
    """The group settings of one consumer group, in milliseconds."""

    session_timeout_ms: int = 45_000
    """The group setting consumer.session.timeout.ms."""
    heartbeat_interval_ms: int = 5_000
    """The group setting consumer.heartbeat.interval.ms."""
    assignment_interval_ms: int = 1_000
    """consumer.assignment.interval.ms (KIP-1263): the minimum time between two target assignments.
    With 0 each change computes a target."""


class ShareSettings(NamedTuple):
    """The group settings of one share group, in milliseconds."""

    session_timeout_ms: int = 45_000
    """The group setting share.session.timeout.ms."""
    heartbeat_interval_ms: int = 5_000
    """The group setting share.heartbeat.interval.ms."""
    assignment_interval_ms: int = 1_000
    """share.assignment.interval.ms (KIP-1263): the minimum time between two target assignments.
    With 0 each change computes a target."""


class StreamsSettings(NamedTuple):
    """The group settings of one streams group; times in milliseconds."""

    session_timeout_ms: int = 45_000
    """The group setting streams.session.timeout.ms."""
    heartbeat_interval_ms: int = 5_000
    """The group setting streams.heartbeat.interval.ms."""
    assignment_interval_ms: int = 1_000
    """streams.assignment.interval.ms (KIP-1263): the minimum time between two target assignments.
    With 0 each change computes a target."""
    num_standby_replicas: int = 0
    """streams.num.standby.replicas: the number of standby tasks of each stateful task."""
    initial_rebalance_delay_ms: int = 3_000
    """streams.initial.rebalance.delay.ms: how long an empty group waits for more members before
    tasks are assigned."""


@slotted(frozen=True)
class GroupConfig:
    """The broker settings of groups and offsets. Times are in milliseconds, the defaults are
    Kafka's."""

    min_session_timeout_ms: int = 6_000
    """The broker setting group.min.session.timeout.ms."""
    max_session_timeout_ms: int = 1_800_000
    """The broker setting group.max.session.timeout.ms."""
    initial_rebalance_delay_ms: int = 3_000
    """group.initial.rebalance.delay.ms: how long an empty group waits for more members."""
    join_coalescing_ms: int = 0
    """group.join.coalescing.ms, a setting of Muster: how long a rebalance that a join has caused
    waits for more joins. 0 turns the wait off."""
    max_size: int = 2**31 - 1
    """group.max.size: the maximum number of members of a group."""
    new_member_join_timeout_ms: int = 300_000
    """The maximum time for which the first JoinGroup of a new member stays parked. In Kafka this is
    a constant of five minutes."""
    offset_metadata_max_bytes: int = 4096
    """offset.metadata.max.bytes. As in Kafka, the limit is compared with the number of characters.
    """
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    """The broker setting offsets.retention.minutes, in milliseconds."""
    commit_retention_ms: int = -1
    """The retention in ms of a commit that does not set a retention.

    It is -1 if all brokers of the cluster are 2.1 or newer: the offset record then has no expiry.
    It is offsets.retention.minutes if the cluster has older brokers, which treat an offset without
    an expiry as expired.
    """
    static_members: bool = True
    """True if members may be static. False in a cluster with brokers before 2.3, which do not
    support KIP-345."""
    offsets_retention_check_interval_ms: int = 600_000
    """The broker setting offsets.retention.check.interval.ms."""
    fetch_counts_as_activity: bool = False
    """The broker setting group.offsets.fetch.counts.as.activity."""
    consumer: ConsumerSettings = ConsumerSettings()
    """The settings group.consumer.* of the broker. They apply to consumer groups without
    group-specific settings."""
    own_consumer: Mapping[str, ConsumerSettings] = field(default_factory=dict)
    """The settings of consumer groups that have group-specific settings, by group id."""
    consumer_max_size: int = 2**31 - 1
    """The broker setting group.consumer.max.size."""
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    """The broker setting group.consumer.assignors."""
    consumer_rebalance_heartbeat_interval_ms: int = 0
    """The broker setting group.consumer.rebalance.heartbeat.interval.ms: the shortest heartbeat
    interval after a new target assignment. With 0 the interval is constant, as in Kafka."""
    consumer_migration_policy: str = BIDIRECTIONAL
    """The broker setting group.consumer.migration.policy, in lower case."""
    share: ShareSettings = ShareSettings()
    """The settings group.share.* of the broker. They apply to share groups without group-specific
    settings."""
    own_share: Mapping[str, ShareSettings] = field(default_factory=dict)
    """The settings of share groups that have group-specific settings, by group id."""
    share_max_size: int = 200
    """The broker setting group.share.max.size."""
    share_initialize_retry_ms: int = 30_000
    """group.share.initialize.retry.interval.ms, an internal property of Kafka. An initialization of
    share partitions that has not ended after this time is repeated."""
    streams: StreamsSettings = StreamsSettings()
    """The settings group.streams.* of the broker. They apply to streams groups without
    group-specific settings."""
    own_streams: Mapping[str, StreamsSettings] = field(default_factory=dict)
    """The settings of streams groups that have group-specific settings, by group id."""
    streams_max_size: int = 2**31 - 1
    """The broker setting group.streams.max.size."""
    max_record_bytes: int = 1_048_588
    """max.message.bytes of ``__consumer_offsets``: the maximum size of a batch, including its
    header."""

    def heartbeat_interval_ms(self, group_id: str, target_age_ms: int) -> int:
        """Returns the time until the next heartbeat of a member. ``target_age_ms`` is the age of
        the group's target assignment.

        After a new target the members send heartbeats at short intervals that grow, so that they
        give up and get partitions soon. Kafka's interval is constant.
        """
        interval_ms = self.of_group(group_id).heartbeat_interval_ms
        if self.consumer_rebalance_heartbeat_interval_ms and 0 <= target_age_ms < interval_ms:
            shortest_ms = self.consumer_rebalance_heartbeat_interval_ms
            return min(interval_ms, max(shortest_ms, target_age_ms))
        return interval_ms

    def of_group(self, group_id: str) -> ConsumerSettings:
        return self.own_consumer.get(group_id, self.consumer)

    def of_share_group(self, group_id: str) -> ShareSettings:
        return self.own_share.get(group_id, self.share)

    def of_streams_group(self, group_id: str) -> StreamsSettings:
        return self.own_streams.get(group_id, self.streams)
