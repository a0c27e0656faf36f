"""Calls: the decoded requests that a shard handles.

A call has no versions or bytes: the caller translates the differences between versions into the
fields below. ``ticket`` is opaque to the core, which returns the ticket with the reply.
``connection`` is opaque too: it identifies the connection that sent the request; None: unknown.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from coordinator.streams.calls import StreamsGroupDescribe, StreamsHeartbeat
from protocol.slotted import slotted

Ticket = Any


class Sender(NamedTuple):
    """The client that sent a request, for the journal."""

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
    """True if a dynamic member without an id first receives an id (v4 and up, KIP-394)."""
    supports_skip_assignment: bool
    """True if the leader may skip the assignment if it is a static member that rejoins (v9 and up,
    KIP-814)."""
    fresh_id: str
    """A new UUID as text. The core uses it only to create a member id; it is "" if the request
    already has a member id."""
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
    """The metadata of each entry; None if all metadata is null or empty."""
    commit_timestamps_ms: Sequence[int] | None
    """The commit timestamps of an OffsetCommit v1; -1: the broker's clock."""


@slotted
class OffsetCommit:
    """OffsetCommit v1 and up. ``topics`` has only topics and partitions that exist."""

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
    """The sender's principal, for the journal; set only for a commit from a client that is not a
    member."""
    knows_member_epochs: bool = True
    """True from v9 on: ``generation_id`` may then be the epoch of a member of a consumer group."""


@slotted
class OffsetFetch:
    """The request for one group of an OffsetFetch; a ``topics`` of None requests all offsets of the
    group."""

    ticket: Ticket
    group_id: str
    topics: Sequence[tuple[str, Sequence[int]]] | None
    require_stable: bool = False
    """True if partitions with pending offsets of a transaction get UNSTABLE_OFFSET_COMMIT (v7 and
    up, KIP-447)."""
    member_id: str | None = None
    """The member id that the request names (v9 and up). With None and epoch -1 the request does not
    name a member."""
    member_epoch: int = -1


@slotted
class TxnOffsetCommit:
    """TxnOffsetCommit v0 to v6, checked by the transaction coordinator; the reply is a CommitReply.

    A client that is not a member sends a negative ``generation_id``, no member id and no instance
    id; below v3 every client does so. ``topics`` has only topics and partitions that exist.
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
    knows_member_epochs: bool = False
    """True from v6 on: the client knows GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH."""


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
    """Requests the groups of this shard. Filters are lower-case names; an empty filter matches all
    groups."""

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
    """OffsetDelete v0. ``topics`` has only topics and partitions that exist."""

    ticket: Ticket
    group_id: str
    topics: Sequence[tuple[str, Sequence[int]]]
    who: Sender = NOBODY


@slotted
class ConsumerHeartbeat:
    """ConsumerGroupHeartbeat v0 and v1 (KIP-848). A field of None or -1 is unchanged since the last
    request that contained it."""

    ticket: Ticket
    group_id: str
    member_id: str
    member_epoch: int
    """0: the member joins or rejoins; -1: the member leaves; -2: a static member leaves
    temporarily; another value: the epoch of the last response."""
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    subscribed_topics: Sequence[str] | None
    subscribed_regex: str | None
    server_assignor: str | None
    owned: Mapping[bytes, Sequence[int]] | None
    """The partitions that the member owns, by topic id; topics without partitions are omitted."""
    client_id: str
    client_host: str
    makes_own_id: bool = True
    """True if the client creates its own member id (v1 and up, KIP-1082)."""
    fresh_id: str = ""
    """A new member id for a member that joins by v0 without an id."""
    regex_error: str | None = None
    """The error of compiling ``subscribed_regex``; None if the regex is valid."""
    sender: Hashable = None
    """The connection of the client, whose principal determines which topics a regex may match."""

    @property
    def reports_no_change(self) -> bool:
        """Returns whether the request has no other field than the ids and the epoch."""
        return (
            self.owned is None
            and self.subscribed_topics is None
            and self.rebalance_timeout_ms == -1
            and self.subscribed_regex is None
            and self.server_assignor is None
            and self.rack_id is None
        )

    @property
    def is_full(self) -> bool:
        """Returns whether the request has all fields, as after a lost response. The reply then has
        all fields too."""
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


@slotted
class ShareHeartbeat:
    """ShareGroupHeartbeat v1 (KIP-932). A field of None is unchanged since the last request that
    contained it."""

    ticket: Ticket
    group_id: str
    member_id: str
    member_epoch: int
    """0: the member joins or rejoins; -1: the member leaves; another value: the epoch of the last
    response."""
    rack_id: str | None
    subscribed_topics: Sequence[str] | None
    client_id: str
    client_host: str


@slotted
class ShareGroupDescribe:
    """One group of a ShareGroupDescribe."""

    ticket: Ticket
    group_id: str


@slotted
class ShareOffsetsDescribe:
    """One group of a DescribeShareGroupOffsets for all topics."""

    ticket: Ticket
    group_id: str


@slotted
class ShareOffsetsAlter:
    """AlterShareGroupOffsets. The broker has removed topics and partitions that do not exist; it
    sets the offsets after the reply."""

    ticket: Ticket
    group_id: str
    topics: Mapping[bytes, tuple[str, tuple[int, ...]]]
    """The name and the partitions, in ascending order, of each topic id."""


@slotted
class ShareOffsetsDelete:
    """DeleteShareGroupOffsets. The broker deletes the states after the reply."""

    ticket: Ticket
    group_id: str
    topic_ids: Sequence[bytes]


Call = (
    ConsumerGroupDescribe
    | ConsumerHeartbeat
    | ShareGroupDescribe
    | ShareHeartbeat
    | ShareOffsetsAlter
    | ShareOffsetsDelete
    | ShareOffsetsDescribe
    | StreamsGroupDescribe
    | StreamsHeartbeat
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
