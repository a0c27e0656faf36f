"""Facts about groups, told once each; the edge makes log lines and metrics of them.

Events are per request, never per partition. ``cause`` is a term of `Cause`; ``detail`` is the
sentence that a person reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Cause(StrEnum):
    """Why a rebalance began, or a group changed state; the label values of the metrics."""

    MEMBER_JOINED = "member_joined"
    MEMBER_LEFT = "member_left"
    SESSION_EXPIRED = "session_expired"
    METADATA_CHANGED = "metadata_changed"
    LEADER_REJOINED = "leader_rejoined"
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


@dataclass(slots=True)
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


@dataclass(slots=True)
class MemberJoined:
    """A member entered the group (not each rejoin)."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    reason: str | None


@dataclass(slots=True)
class MemberLeft:
    """A member is out: it left, expired, was removed or was replaced."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    cause: Cause
    detail: str


@dataclass(slots=True)
class GenerationFormed:
    """A join phase ended with members: what came of it and how long it took."""

    group_id: str
    generation_id: int
    protocol_name: str | None
    leader: str | None
    members: int
    join_ms: int


@dataclass(slots=True)
class CommitRejected:
    """An OffsetCommit was refused as a whole."""

    group_id: str
    member_id: str
    error_code: int


@dataclass(slots=True)
class OffsetsExpired:
    """Offsets were dropped by retention, deletion of the group or of their topic."""

    group_id: str
    offsets: int
    cause: Cause


@dataclass(slots=True)
class GroupRemoved:
    """The group is forgotten."""

    group_id: str
    cause: Cause


Event = (
    Transition
    | MemberJoined
    | MemberLeft
    | GenerationFormed
    | CommitRejected
    | OffsetsExpired
    | GroupRemoved
)

_REASON_CHARACTERS = 255
"""Of a client's own reason, which the protocol lets be long; clients cut it here too (KIP-800)."""
_NAMED = 3


def short(reason: str | None) -> str | None:
    """The reason that a client gave, cut to a decent length."""
    return reason[:_REASON_CHARACTERS] if reason else reason


def with_reason(what: str, reason: str | None) -> str:
    """A sentence with the reason that a client gave."""
    return f"{what}: {short(reason)}" if reason else what


def some_of(parts: list[str], separator: str) -> str:
    """The first few of many, and how many more there are."""
    more = f"{separator}and {len(parts) - _NAMED} more" if len(parts) > _NAMED else ""
    return separator.join(parts[:_NAMED]) + more
