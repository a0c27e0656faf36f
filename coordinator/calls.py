"""Calls: the decoded requests that a shard handles.

A call has no versions or bytes: the caller translates the differences between versions into the
fields below. ``ticket`` is opaque to the shard, which returns the ticket with the reply.
``connection`` identifies the connection that sent the request and is opaque too. A ``connection``
of None means that the connection is unknown.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from coordinator.streams.calls import StreamsGroupDescribe, StreamsHeartbeat
from protocol.slotted import slotted

Ticket = Any


class Sender(NamedTuple):
    """The client that sent a request, as the journal shows it."""

    principal: str
    client_id: str
    client_host: str


NOBODY = Sender("", "", "")


@slotted
class JoinGroup:
    """JoinGroup v0 to v9. For v0, ``rebalance_timeout_ms`` equals the session timeout (KIP-62)."""

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
    """True if a dynamic member without a member id gets MEMBER_ID_REQUIRED and a new member id
    first (v4 and up, KIP-394)."""
    supports_skip_assignment: bool
    """True if the client supports the response field skip_assignment (v9 and up, KIP-814). With
    this field, a static member that rejoins as the leader computes no assignment."""
    fresh_id: str
    """A new UUID as text. The shard uses it only to create a member id. It is "" if the request
    already has a member id."""
    connection: Hashable = None


@slotted
class SyncGroup:
    """SyncGroup v0 to v5. The protocol type and the protocol name are None below v5."""

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
    """One member that a LeaveGroup removes. In v0 to v2 there is exactly one, named by its member
    id."""

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
    """The metadata of each partition; None if all metadata is null or empty."""
    commit_timestamps_ms: Sequence[int] | None
    """The commit timestamps of an OffsetCommit v1. -1 means the time of the broker's clock."""


@slotted
class OffsetCommit:
    """OffsetCommit v1 and up. ``topics`` has only topics and partitions that exist."""

    ticket: Ticket
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    retention_time_ms: int
    """Milliseconds for which the offsets are kept (v2 to v4). -1 means the broker's setting."""
    topics: Sequence[TopicOffsets]
    client_id: str = ""
    client_host: str = ""
    principal: str = ""
    """The principal of the client, for the journal. It is set only for a client that is not a
    member of the group."""
    knows_member_epochs: bool = True
    """True from v9 on: ``generation_id`` may then be the epoch of a member of a consumer group
    (KIP-848)."""


@slotted
class OffsetFetch:
    """One group of an OffsetFetch. A ``topics`` of None requests all offsets of the group."""

    ticket: Ticket
    group_id: str
    topics: Sequence[tuple[str, Sequence[int]]] | None
    require_stable: bool = False
    """True if partitions with pending offsets of a transaction must get UNSTABLE_OFFSET_COMMIT (v7
    and up, KIP-447)."""
    member_id: str | None = None
    """The member id in the request (v9 and up). A member id of None and an epoch of -1 mean that
    the request is not from a member."""
    member_epoch: int = -1


@slotted
class TxnOffsetCommit:
    """TxnOffsetCommit v0 to v6, after the transaction coordinator has accepted it. The reply is a
    CommitReply.

    A client that is not a member sends a negative ``generation_id``, no member id and no instance
    id. Requests below v3 always have these values. ``topics`` has only topics and partitions that
    exist.
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
    """True from v6 on: the client knows the error codes GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH.
    """


@slotted
class EndOffsets:
    """A transaction marker for this shard's partition of `__consumer_offsets`. The caller has
    checked that the partition's log accepts the marker. The marker is written in any state of any
    group, even if the producer has no pending offsets in this partition. The reply is an error
    code."""

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
    """ListGroups for the groups of this shard. Filters are lower-case names; an empty filter
    matches all groups."""

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
    """ConsumerGroupHeartbeat v0 and v1 (KIP-848). A field that is None or -1 has not changed since
    the last request that contained it."""

    ticket: Ticket
    group_id: str
    member_id: str
    member_epoch: int
    """0: the member joins or rejoins. -1: the member leaves. -2: a static member leaves
    temporarily. Another value: the epoch of the last response."""
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    subscribed_topics: Sequence[str] | None
    subscribed_regex: str | None
    server_assignor: str | None
    owned: Mapping[bytes, Sequence[int]] | None
    """The partitions that the member owns, by topic id; None if unchanged. Topics without
    partitions are omitted."""
    client_id: str
    client_host: str
    makes_own_id: bool = True
    """True if the client creates its own member id (v1 and up, KIP-1082)."""
    fresh_id: str = ""
    """A new member id, for a client that joins by v0 without a member id."""
    regex_error: str | None = None
    """The error message if ``subscribed_regex`` can't be compiled; None if the regex is valid."""
    sender: Hashable = None
    """Identifies the client's connection. The principal of the connection determines which topics a
    regex may match."""

    @property
    def reports_no_change(self) -> bool:
        """Returns whether the request has only the ids and the epoch."""
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
        """Returns whether the request has all fields, as after a lost response. The reply must then
        have all fields too."""
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
    """ShareGroupHeartbeat v1 (KIP-932). A field that is None has not changed since the last request
    that contained it."""

    ticket: Ticket
    group_id: str
    member_id: str
    member_epoch: int
    """0: the member joins or rejoins. -1: the member leaves. Another value: the epoch of the last
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
    """One group of a DescribeShareGroupOffsets that requests all topics."""

    ticket: Ticket
    group_id: str


@slotted
class ShareOffsetsAlter:
    """AlterShareGroupOffsets, without the topics and partitions that do not exist. The broker sets
    the offsets after the shard has replied."""

    ticket: Ticket
    group_id: str
    topics: Mapping[bytes, tuple[str, tuple[int, ...]]]
    """The name and the partitions of each topic, by topic id. The partitions are in ascending
    order."""


@slotted
class ShareOffsetsDelete:
    """DeleteShareGroupOffsets. The broker deletes the states of the share partitions after the
    shard has replied."""

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
