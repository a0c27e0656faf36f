"""Events of consumer groups, each emitted once; the broker turns events into log lines and
metrics."""

from __future__ import annotations

from collections.abc import Hashable
from enum import StrEnum

from offsets.consumer_records import CurrentAssignment
from offsets.share_records import ShareCurrentAssignment
from offsets.streams_records import StreamsCurrentAssignment
from protocol.slotted import slotted


class EpochCause(StrEnum):
    """The cause for which the epoch of a consumer, share or streams group rose."""

    MEMBER_JOINED = "member_joined"
    MEMBER_LEFT = "member_left"
    SESSION_EXPIRED = "session_expired"
    REBALANCE_TIMED_OUT = "rebalance_timed_out"
    """A member did not give up its partitions within its rebalance timeout."""
    SUBSCRIPTION_CHANGED = "subscription_changed"
    TOPICS_CHANGED = "topics_changed"
    REGEX_RESOLVED = "regex_resolved"
    PARTITIONS_INITIALIZED = "partitions_initialized"
    """Partitions of a share group can be assigned, because their delivery state is initialized."""
    METADATA_CHANGED = "metadata_changed"
    """A member of a streams group has changed its host, process or endpoint."""
    SETTINGS_CHANGED = "settings_changed"
    ASKED_FOR = "asked_for"
    """A test requested the new epoch from a broker in test mode."""


@slotted
class EpochBumped:
    """The epoch of a group was raised. The next target assignment gets this epoch."""

    group_id: str
    epoch: int
    cause: EpochCause
    member_id: str
    """The member that caused the new epoch; "" if no single member did."""
    detail: str
    """The cause of the new epoch, as text for the journal."""
    awaited: tuple[str, ...] = ()
    """The ids of the members that must adopt the new epoch by a heartbeat. The tuple has at most
    `AWAITED_NAMED` ids."""
    type: str = "consumer"
    """The type of the group, as in ListGroups."""


@slotted
class TargetComputed:
    """A target assignment was computed."""

    group_id: str
    epoch: int
    assignor: str
    members: int
    changed: int
    moved: str
    """The partitions that get another owner, as text."""


@slotted
class GroupReconciled:
    """Every member of a group has adopted its target assignment. An `Assigned` event follows."""

    group_id: str
    epoch: int
    members: int


@slotted
class MemberReconciled:
    """The epoch, state or partitions of a member changed."""

    group_id: str
    member_id: str
    before: CurrentAssignment | ShareCurrentAssignment | StreamsCurrentAssignment
    after: CurrentAssignment | ShareCurrentAssignment | StreamsCurrentAssignment


@slotted
class RegexesWanted:
    """The regexes of a group must be resolved to topics. The broker resolves the regexes outside
    the shard and then passes the result to the shard."""

    group_id: str
    regexes: tuple[str, ...]
    version: int
    sender: Hashable
    """The connection whose principal must have the right DESCRIBE on the matched topics."""


@slotted
class RegexesResolved:
    """Regexes were resolved. The event contains the topics that have begun to match, and the topics
    that no longer match."""

    group_id: str
    regexes: tuple[str, ...]
    came: tuple[str, ...]
    gone: tuple[str, ...]


@slotted
class HeartbeatRefused:
    """A ConsumerGroupHeartbeat was rejected."""

    group_id: str
    member_id: str
    client_id: str
    client_host: str
    error_code: int
    detail: str


ConsumerEvent = (
    EpochBumped
    | TargetComputed
    | GroupReconciled
    | MemberReconciled
    | RegexesWanted
    | RegexesResolved
    | HeartbeatRefused
)
