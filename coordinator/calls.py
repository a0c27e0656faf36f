"""Calls: the decoded requests that a shard handles.

A call has no versions or bytes: the caller translates the differences between versions into the
fields below. ``ticket`` is opaque to the core, which returns the ticket with the reply.
``connection`` is opaque too: it identifies the connection that sent the request; None: unknown.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from protocol.slotted import slotted

Ticket = Any


class Sender(NamedTuple):
    """The sender of a request, for the journal."""

    principal: str
    client_id: str
    client_host: str


NOBODY = Sender("", "", "")


@slotted
class JoinGroup:
    """JoinGroup v0 to v9. ``rebalance_timeout_ms`` equals the session timeout for v0 (KIP-62)."""

    ticket: Ticket
    group_id: str
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Sequence[tuple[str, bytes]]
    reason: str | None
    member_id_required: bool
    """Whether a dynamic member without an id first receives an id (v4 and up, KIP-394)."""
    supports_skip_assignment: bool
    """Whether a static leader that rejoins may be asked to skip the assignment (v9 and up,
    KIP-814)."""
    fresh_id: str
    """A new UUID as text, used only when the core makes a member id; "" if the request has one."""
    connection: Hashable = None


@slotted
class SyncGroup:
    """SyncGroup v0 to v5; protocol type and name are None below v5."""

    ticket: Ticket
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: Sequence[tuple[str, bytes]]
    connection: Hashable = None


@slotted
class Heartbeat:
    """Heartbeat v0 to v4."""

    ticket: Ticket
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    connection: Hashable = None


class Leaver(NamedTuple):
    """One member of a LeaveGroup; v0 to v2 name a single member by its id."""

    member_id: str
    group_instance_id: str | None
    reason: str | None


@slotted
class LeaveGroup:
    """LeaveGroup v0 to v5."""

    ticket: Ticket
    group_id: str
    members: Sequence[Leaver]


class TopicOffsets(NamedTuple):
    """The offsets of one topic in a commit, as columns of equal length."""

    topic: str
    partitions: Sequence[int]
    offsets: Sequence[int]
    leader_epochs: Sequence[int]
    metadata: Sequence[str | None] | None
    """The metadata of each entry; None: all metadata is null or empty."""
    commit_timestamps_ms: Sequence[int] | None
    """The commit timestamps of an OffsetCommit v1; -1: the broker's clock."""


@slotted
class OffsetCommit:
    """OffsetCommit v1 and up. ``topics`` holds only topics and partitions that exist."""

    ticket: Ticket
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    retention_time_ms: int
    """Milliseconds for which the offsets are kept (v2 to v4); -1: the broker's setting."""
    topics: Sequence[TopicOffsets]
    client_id: str = ""
    client_host: str = ""
    principal: str = ""
    """The sender's principal, for the journal; set only for a commit without membership."""
    knows_member_epochs: bool = True
    """v9 and up: ``generation_id`` may be the epoch of a member of a consumer group."""


@slotted
class OffsetFetch:
    """One group of an OffsetFetch; with ``topics`` None the request is for all offsets of the
    group."""

    ticket: Ticket
    group_id: str
    topics: Sequence[tuple[str, Sequence[int]]] | None
    require_stable: bool = False
    """v7 and up: partitions with pending offsets of a transaction get UNSTABLE_OFFSET_COMMIT
    (KIP-447)."""
    member_id: str | None = None
    """v9 and up; None and epoch -1: the request names no member."""
    member_epoch: int = -1


@slotted
class TxnOffsetCommit:
    """TxnOffsetCommit v0 to v5, checked by the transaction coordinator; the reply is a CommitReply.

    A client without membership sends a negative ``generation_id``, no member id and no instance id;
    below v3 every client does. ``topics`` holds only topics and partitions that exist.
    """

    ticket: Ticket
    group_id: str
    producer_id: int
    producer_epoch: int
    generation_id: int
    member_id: str
    group_instance_id: str | None
    topics: Sequence[TopicOffsets]
    client_id: str = ""
    client_host: str = ""


@slotted
class EndOffsets:
    """A transaction marker for this partition of the offsets topic, already checked by the
    partition's log; the reply is an error code.

    The marker is written in any state of any group, even if the producer has no pending offsets in
    this partition.
    """

    ticket: Ticket
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool


@slotted
class DescribeGroup:
    """One group of a DescribeGroups."""

    ticket: Ticket
    group_id: str


@slotted
class ListGroups:
    """The groups of this shard; filters are lower-case names, empty for all."""

    ticket: Ticket
    states: frozenset[str]
    types: frozenset[str]


@slotted
class DeleteGroup:
    """One group of a DeleteGroups."""

    ticket: Ticket
    group_id: str
    who: Sender = NOBODY


@slotted
class OffsetDelete:
    """OffsetDelete v0. ``topics`` holds only topics and partitions that exist."""

    ticket: Ticket
    group_id: str
    topics: Sequence[tuple[str, Sequence[int]]]
    who: Sender = NOBODY


@slotted
class ConsumerHeartbeat:
    """ConsumerGroupHeartbeat v0 and v1 (KIP-848). None and -1: unchanged since it was said."""

    ticket: Ticket
    group_id: str
    member_id: str
    member_epoch: int
    """0: join or rejoin; -1: leave; -2: a static member leaves for a while; else as responded."""
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    subscribed_topics: Sequence[str] | None
    subscribed_regex: str | None
    server_assignor: str | None
    owned: Mapping[bytes, Sequence[int]] | None
    """The partitions that the member owns, by topic id; empty lists are left out."""
    client_id: str
    client_host: str
    makes_own_id: bool = True
    """v1 and up: the client makes its member id (KIP-1082)."""
    fresh_id: str = ""
    """A new id for a member that joins by v0 without one."""
    regex_error: str | None = None
    """Why ``subscribed_regex`` does not compile; None: it does."""
    sender: Hashable = None
    """The connection, whose principal decides which topics a regex may match."""

    @property
    def is_full(self) -> bool:
        """Whether the request says all, as after a lost response: it is answered with all."""
        return (
            self.rebalance_timeout_ms != -1
            and (self.subscribed_topics is not None or self.subscribed_regex is not None)
            and self.owned is not None
        )


@slotted
class ConsumerGroupDescribe:
    """One group of a ConsumerGroupDescribe."""

    ticket: Ticket
    group_id: str


Call = (
    ConsumerGroupDescribe
    | ConsumerHeartbeat
    | JoinGroup
    | SyncGroup
    | Heartbeat
    | LeaveGroup
    | OffsetCommit
    | OffsetFetch
    | TxnOffsetCommit
    | EndOffsets
    | DescribeGroup
    | ListGroups
    | DeleteGroup
    | OffsetDelete
)
