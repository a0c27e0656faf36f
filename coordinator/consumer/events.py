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
    """Why the epoch of a consumer, share or streams group rose."""

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
    """A member of a streams group has another host, process or endpoint."""
    SETTINGS_CHANGED = "settings_changed"
    """A setting of the assignor of a streams group has another value."""
    ASKED_FOR = "asked_for"
    """A test requested the new epoch from a broker in test mode."""


@slotted
class EpochBumped:
    """The epoch of a group was raised; the next target assignment has this epoch."""

    group_id: str
    epoch: int
    cause: EpochCause
    member_id: str
    """The member that caused the new epoch; "" if no single member did."""
    detail: str
    """The cause of the new epoch, in words."""
    awaited: tuple[str, ...] = ()
    """The first of the members that must send a heartbeat or give up partitions."""
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
    """The number of members whose target changed."""
    moved: str
    """The partitions that get another owner, in words."""


@slotted
class GroupReconciled:
    """Every member of a group has its target assignment; an `Assigned` event follows."""

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
    """The regexes of a group must be resolved to topics. The broker resolves them outside the core
    and then calls the shard."""

    group_id: str
    regexes: tuple[str, ...]
    version: int
    """The version of the image of the topics."""
    sender: Hashable
    """The connection whose principal must have DESCRIBE on the topics."""


@slotted
class RegexesResolved:
    """Regexes were resolved. The event has the topics that match now but did not match before, and
    the topics that matched before but do not match now."""

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
