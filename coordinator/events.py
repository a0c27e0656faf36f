"""Events of groups, each emitted once. The broker turns events into log lines and metrics.

Events are per request, never per partition. ``cause`` is a term of `Cause`; ``detail`` is a text
for a reader.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from coordinator.consumer.events import ConsumerEvent
from coordinator.share.events import ShareEvent
from coordinator.streams.events import StreamsEvent
from protocol.slotted import slotted


class Cause(StrEnum):
    """The cause of a rebalance or of another state change of a group. The values are labels of
    metrics."""

    MEMBER_JOINED = "member_joined"
    MEMBER_LEFT = "member_left"
    SESSION_EXPIRED = "session_expired"
    METADATA_CHANGED = "metadata_changed"
    LEADER_REJOINED = "leader_rejoined"
    COORDINATOR_RESTARTED = "coordinator_restarted"
    STATIC_MEMBER_REPLACED = "static_member_replaced"
    SYNC_TIMED_OUT = "sync_timed_out"
    JOIN_TIMED_OUT = "join_timed_out"
    NEW_MEMBER_TIMED_OUT = "new_member_timed_out"
    INITIAL_DELAY_ENDED = "initial_delay_ended"
    NOBODY_LEFT = "nobody_left"
    GROUP_RECORD_TOO_LARGE = "group_record_too_large"
    ALL_JOINED = "all_joined"
    ASSIGNED = "assigned"
    LOADED = "loaded"
    OVER_MAX_SIZE = "over_max_size"
    DELETED = "deleted"
    EXPIRED = "expired"
    UNLOADED = "unloaded"
    DISCONNECTED = "disconnected"
    ASKED_FOR = "asked_for"
    """A test requested the change from a broker in test mode."""
    REBALANCE_TIMED_OUT = "rebalance_timed_out"
    """A member of a consumer group did not give up its partitions within its rebalance timeout."""
    SUBSCRIPTION_CHANGED = "subscription_changed"
    TOPICS_CHANGED = "topics_changed"
    REGEX_RESOLVED = "regex_resolved"
    PARTITIONS_INITIALIZED = "partitions_initialized"
    """Partitions of a share group can be assigned, because their delivery state is initialized."""
    SETTINGS_CHANGED = "settings_changed"
    UNKNOWN = "unknown"
    """The cause of generations that were loaded from the log; events never have this cause."""


@slotted
class Transition:
    """A group changed its state. A move to PreparingRebalance begins a rebalance. States are given
    by the values of `State`."""

    group_id: str
    old_state: str
    new_state: str
    generation_id: int
    cause: Cause
    detail: str
    member_id: str = ""
    """The member that caused the transition; "" if no single member did."""
    awaited: tuple[str, ...] = ()
    """The ids of the members that the group waits for in its new state, except ``member_id``."""
    wait_ms: int = 0
    """The maximum time in ms for which the group waits for ``awaited``; 0 if it does not wait for
    members."""


@slotted
class MemberJoined:
    """A member was added to the group. The event is not emitted when an existing member rejoins."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    reason: str | None
    replaces: str = ""
    """The member id that a rejoined static member replaces; "" if the new member replaces no
    member."""
    fences: tuple[str, str] | None = None
    """Client id and host of the replaced member if its process was still alive; else None. The
    process counts as alive if its connection was open and differed from the new member's
    connection."""
    away_ms: int = -1
    """The time in ms between the close of the replaced member's connection and the join of the new
    member; -1 if the connection was still open."""


@slotted
class MemberLeft:
    """A member was removed: it left, expired or was replaced."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    cause: Cause
    detail: str
    silent_ms: int = -1
    """Milliseconds since the member's last request if its session expired; otherwise -1."""
    connection_closed: bool = False


@slotted
class MemberChanged:
    """A member rejoined with other topics or protocols. A change of owned partitions alone does not
    emit the event."""

    group_id: str
    member_id: str
    client_id: str
    client_host: str
    detail: str


@slotted
class GenerationFormed:
    """A join phase ended with members: the new generation, and the duration of the phase."""

    group_id: str
    generation_id: int
    protocol_name: str | None
    leader: str | None
    members: int
    join_ms: int
    last_member: str = ""
    last_wait_ms: int = 0
    """The time in ms for which the rebalance waited only for ``last_member``, because all other
    members had joined."""


class AssignedMember(NamedTuple):
    """The assignment of one member. ``assignment`` is the bytes that the leader sent, not
    decoded."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    assignment: bytes


@slotted
class Assigned:
    """The coordinator accepted the leader's assignment."""

    group_id: str
    generation_id: int
    protocol_type: str | None
    members: tuple[AssignedMember, ...]


@slotted
class GroupConverted:
    """A group was converted between the types classic and consumer, together with its members
    (KIP-848)."""

    group_id: str
    type: str
    """The new type of the group: "consumer" or "classic"."""
    generation_id: int
    """The generation of the new classic group, or the epoch of the new consumer group."""
    detail: str


@slotted
class CommitRejected:
    """An OffsetCommit was rejected, either as a whole or for partitions whose metadata is too
    long."""

    group_id: str
    member_id: str
    error_code: int
    client_id: str = ""
    client_host: str = ""
    detail: str = ""


@slotted
class JoinRefused:
    """A JoinGroup was rejected with an error other than MEMBER_ID_REQUIRED."""

    group_id: str
    member_id: str
    error_code: int
    client_id: str
    client_host: str
    detail: str


class MovedOffset(NamedTuple):
    """One offset that a commit lowered or an admin action changed."""

    topic: str
    partition: int
    offset_before: int
    offset: int


@slotted
class OffsetsMovedBack:
    """An accepted commit lowered offsets. The client has rewound or reset its position, or has a
    bug."""

    group_id: str
    member_id: str
    client_id: str
    client_host: str
    offsets: int
    examples: tuple[MovedOffset, ...]
    principal: str = ""
    """The sender's principal; set only for a commit from a client that is not a member of the
    group."""


class Loss(StrEnum):
    """The kind of admin action that makes a group miss records."""

    SKIPPED = "skipped"
    """A client that is not a member raised committed offsets of the group. The group's members use
    these offsets, so they skip records."""
    TRIMMED = "trimmed"
    """Records that the group had not read were deleted."""
    OFFSETS_DELETED = "offsets_deleted"
    TOPIC_DELETED = "topic_deleted"
    GROUP_DELETED = "group_deleted"


EXAMPLES_KEPT = 8
"""The maximum number of offsets that an event about many offsets lists as examples."""


@slotted
class LostByAdmin:
    """An admin request makes, or may make, a group miss records."""

    group_id: str
    loss: Loss
    principal: str
    client_id: str
    client_host: str
    offsets: int
    """The number of the group's committed offsets that the request affects."""
    examples: tuple[MovedOffset, ...]
    """The first `EXAMPLES_KEPT` of the moved or deleted offsets. In each example, ``offset`` is the
    new committed offset or the new log start offset; -1 if the committed offset was deleted."""


@slotted
class TransactionalOffsets:
    """A transaction that committed offsets of the group has ended."""

    group_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    """True if the transaction's offsets were committed, False if they were dropped."""
    offsets: int


@slotted
class OffsetsExpired:
    """Offsets were dropped by retention, or because their group or topic was deleted."""

    group_id: str
    offsets: int
    cause: Cause


@slotted
class OffsetsExpiring:
    """Retention will drop offsets of a group soon. The event is emitted once for each warning
    time."""

    group_id: str
    offsets: int
    within_ms: int
    soonest_ms: int
    """The wall time, in Unix milliseconds, at which the first of the group's expiring offsets may
    be dropped."""
    detail: str


@slotted
class GroupRemoved:
    """The group was removed from memory."""

    group_id: str
    cause: Cause


LOADED_ID_CHARACTERS = 160
"""The maximum length of an id in a `LoadedGeneration`. Longer ids are truncated, because a load
keeps several generations per group."""


class LoadedGeneration(NamedTuple):
    """A generation of a group that the log still contained when the shard was loaded."""

    log_offset: int
    generation_id: int
    protocol_name: str | None
    leader: str | None
    members: int
    state_timestamp_ms: int


@slotted
class ShardLoaded:
    """The groups of one shard were loaded from its log."""

    groups: int
    generations: Mapping[str, Sequence[LoadedGeneration]]
    """The generations in the log by group id, the oldest first. A group is restored to its last
    generation."""


Event = (
    Transition
    | MemberJoined
    | MemberLeft
    | MemberChanged
    | GenerationFormed
    | Assigned
    | GroupConverted
    | CommitRejected
    | JoinRefused
    | OffsetsMovedBack
    | LostByAdmin
    | TransactionalOffsets
    | OffsetsExpiring
    | OffsetsExpired
    | GroupRemoved
    | ShardLoaded
    | ConsumerEvent
    | ShareEvent
    | StreamsEvent
)
