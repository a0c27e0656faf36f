"""Facts about groups, emitted once each; the edge makes log lines and metrics of them.

Events are per request, never per partition. ``cause`` is a term of `Cause`; ``detail`` is the
sentence that a person reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from protocol.slotted import slotted


class Cause(StrEnum):
    """Why a rebalance began, or a group changed state; the label values of the metrics."""

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
    """A test asked for it, through a broker that runs for a test; no request of the group did."""
    UNKNOWN = "unknown"
    """Of what only the log knows; never of an event."""


@slotted
class Transition:
    """A group moved from one state to another; a move to PreparingRebalance begins a rebalance.

    The states are their names on the wire, ``State.value``.
    """

    group_id: str
    old_state: str
    new_state: str
    generation_id: int
    cause: Cause
    detail: str
    member_id: str = ""
    """The member that caused it; "" when not a single member did."""
    awaited: tuple[str, ...] = ()
    """The member ids that the group waits for in its new state; the one who caused it left out."""
    wait_ms: int = 0
    """How long it waits for them at most; 0 when it waits for no member."""


@slotted
class MemberJoined:
    """A member entered the group (not each rejoin)."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    reason: str | None
    replaces: str = ""
    """The member id whose place a static member took over."""
    fences: tuple[str, str] | None = None
    """Client id and host of that member, if its process lived: its connection was open, and it was
    another one."""
    away_ms: int = -1
    """How long ago the connection of that member had closed; -1 where it had not."""


@slotted
class MemberLeft:
    """A member is out: it left, expired, was removed or was replaced."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    cause: Cause
    detail: str
    silent_ms: int = -1
    """How long nothing was heard of it, where that is why it is out; else -1."""
    connection_closed: bool = False
    """The connection had closed by which it spoke."""


@slotted
class MemberChanged:
    """A member rejoined with other topics or protocols (not merely with other partitions owned)."""

    group_id: str
    member_id: str
    client_id: str
    client_host: str
    detail: str


@slotted
class GenerationFormed:
    """A join phase ended with members: the new generation, and how long the phase took."""

    group_id: str
    generation_id: int
    protocol_name: str | None
    leader: str | None
    members: int
    join_ms: int
    last_member: str = ""
    """The member that joined last."""
    last_wait_ms: int = 0
    """How long all others waited for it alone."""


class AssignedMember(NamedTuple):
    """The assignment of one member; ``assignment`` is the leader's bytes, not decoded."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    assignment: bytes


@slotted
class Assigned:
    """The leader's assignment was taken."""

    group_id: str
    generation_id: int
    protocol_type: str | None
    members: tuple[AssignedMember, ...]


@slotted
class CommitRejected:
    """An OffsetCommit was refused, as a whole or, for its metadata, in some partitions."""

    group_id: str
    member_id: str
    error_code: int
    client_id: str = ""
    client_host: str = ""
    detail: str = ""


@slotted
class JoinRefused:
    """A JoinGroup was refused, other than to give the client its member id."""

    group_id: str
    member_id: str
    error_code: int
    client_id: str
    client_host: str
    detail: str


class MovedOffset(NamedTuple):
    """One offset that a commit moved back."""

    topic: str
    partition: int
    offset_before: int
    offset: int


@slotted
class OffsetsMovedBack:
    """A commit was accepted that set offsets lower than they were: a rewind, a reset, or a bug."""

    group_id: str
    member_id: str
    client_id: str
    client_host: str
    offsets: int
    """How many."""
    examples: tuple[MovedOffset, ...]
    """The first few of them."""
    principal: str = ""
    """The sender's principal; set only for a commit without membership."""


class Loss(StrEnum):
    """The kind of admin action that makes a group miss records."""

    SKIPPED = "skipped"
    """Offsets were set higher, without membership, in a group whose members use them."""
    TRIMMED = "trimmed"
    """Records that the group had not read were deleted."""
    OFFSETS_DELETED = "offsets_deleted"
    TOPIC_DELETED = "topic_deleted"
    GROUP_DELETED = "group_deleted"


EXAMPLES_KEPT = 8
"""Offsets that an event of many names."""


@slotted
class LostByAdmin:
    """A request of an admin after which a group misses records, or may."""

    group_id: str
    loss: Loss
    principal: str
    client_id: str
    client_host: str
    offsets: int
    """How many of the group's committed offsets it concerned."""
    examples: tuple[MovedOffset, ...]
    """The first few of them, to where they were set or to the new start of the log; -1: deleted."""


@slotted
class TransactionalOffsets:
    """A transaction has ended in which offsets of the group were committed."""

    group_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    """False: they were dropped."""
    offsets: int
    """How many were pending."""


@slotted
class OffsetsExpired:
    """Offsets were dropped by retention, deletion of the group or of their topic."""

    group_id: str
    offsets: int
    cause: Cause


@slotted
class OffsetsExpiring:
    """Offsets of a group will be dropped by retention soon; emitted once for each warning time."""

    group_id: str
    offsets: int
    within_ms: int
    soonest_ms: int
    """Wall time at which the first of them may go."""
    detail: str


@slotted
class GroupRemoved:
    """The group is forgotten."""

    group_id: str
    cause: Cause


LOADED_ID_CHARACTERS = 160
"""Of the ids in a `LoadedGeneration`: there are as many as there are groups."""


class LoadedGeneration(NamedTuple):
    """A generation that the log still held when it was loaded."""

    log_offset: int
    generation_id: int
    protocol_name: str | None
    leader: str | None
    members: int
    state_timestamp_ms: int


@slotted
class ShardLoaded:
    """The groups of one partition are back, as the log has them."""

    groups: int
    generations: Mapping[str, Sequence[LoadedGeneration]]
    """By group id, oldest first; the last one is what the group is restored to."""


Event = (
    Transition
    | MemberJoined
    | MemberLeft
    | MemberChanged
    | GenerationFormed
    | Assigned
    | CommitRejected
    | JoinRefused
    | OffsetsMovedBack
    | LostByAdmin
    | TransactionalOffsets
    | OffsetsExpiring
    | OffsetsExpired
    | GroupRemoved
    | ShardLoaded
)
