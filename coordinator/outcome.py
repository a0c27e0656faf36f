"""The results of a shard's steps: records to append, replies to release, and events to emit.

Replies are values without versions; the broker encodes them. The replies to Heartbeat, DeleteGroup
and EndOffsets are error codes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import NamedTuple

from coordinator.calls import Ticket
from coordinator.events import Event
from offsets.cache import FetchedColumns
from offsets.consumer_records import Assignment
from offsets.runs import OwnBatch, Run
from offsets.streams_records import (
    Endpoint,
    InternalTopic,
    StreamsMemberMetadata,
    TaskRoles,
    Topology,
)
from protocol.slotted import slotted


class JoinedMember(NamedTuple):
    """A member in the leader's JoinGroup reply. ``metadata`` is the member's metadata for the
    selected protocol."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


@slotted
class JoinReply:
    """The reply to JoinGroup. If it has an error, the generation is -1, and protocol, leader and
    members are empty."""

    error_code: int
    member_id: str
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: Sequence[JoinedMember] = ()


@slotted
class SyncReply:
    """The reply to SyncGroup."""

    error_code: int
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@slotted
class LeaveReply:
    """The reply to LeaveGroup, with (member id, instance id, error code) for each leaving member,
    in request order."""

    error_code: int
    members: Sequence[tuple[str, str | None, int]] = ()


@slotted
class CommitReply:
    """The reply to OffsetCommit. ``errors`` is one error code for all topics, or has one element
    for each topic: an error code, or one code for each partition."""

    errors: int | Sequence[int | Sequence[int]]


FetchedTopic = FetchedColumns
"""The offsets of one topic as columns of equal length. The offset is -1 for a partition without a
committed offset. ``metadata`` is None if all metadata is empty."""


@slotted
class FetchReply:
    """The reply to one group of an OffsetFetch."""

    error_code: int
    topics: Sequence[FetchedTopic] = ()


class DescribedMember(NamedTuple):
    """A member in a DescribeGroups reply."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@slotted
class DescribeReply:
    """The reply to one group of a DescribeGroups. ``state`` is the state's name in responses."""

    error_code: int
    group_id: str
    state: str = "Dead"
    protocol_type: str = ""
    protocol_name: str = ""
    members: Sequence[DescribedMember] = ()
    is_other_type: bool = False
    """True for a group that is not a classic group. DescribeGroups reports such a group as "Dead".
    """


class ListedGroup(NamedTuple):
    """A group in a ListGroups reply. ``state`` is the state's name in responses; the default of
    ``type`` is "classic"."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str


@slotted
class ListReply:
    """The reply to ListGroups of one shard."""

    error_code: int
    groups: Sequence[ListedGroup] = ()


@slotted
class OffsetDeleteReply:
    """The reply to OffsetDelete, with (topic, [(partition, error code)]) for each topic in request
    order."""

    error_code: int
    topics: Sequence[tuple[str, Sequence[tuple[int, int]]]] = ()


class DescribedConsumer(NamedTuple):
    """A member in a ConsumerGroupDescribe reply."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    epoch: int
    client_id: str
    client_host: str
    subscribed_topics: tuple[str, ...]
    subscribed_regex: str
    assignment: Assignment
    """The partitions that the member may own: the assigned partitions, and those that the member
    must still give up."""
    target: Assignment
    is_classic: bool


@slotted
class ConsumerDescribeReply:
    """The reply to one group of a ConsumerGroupDescribe."""

    error_code: int
    group_id: str
    error_message: str | None = None
    state: str = ""
    epoch: int = 0
    target_epoch: int = 0
    assignor: str = ""
    members: tuple[DescribedConsumer, ...] = ()


@slotted
class ConsumerHeartbeatReply:
    """The reply to ConsumerGroupHeartbeat. An error reply has an error message and no other
    field."""

    error_code: int
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Mapping[bytes, Sequence[int]] | None = None
    """All partitions of the member, by topic id; None if they have not changed."""


class DescribedShareMember(NamedTuple):
    """A member in a ShareGroupDescribe reply."""

    member_id: str
    rack_id: str | None
    epoch: int
    client_id: str
    client_host: str
    subscribed_topics: tuple[str, ...]
    assignment: Assignment


@slotted
class ShareDescribeReply:
    """The reply to one group of a ShareGroupDescribe."""

    error_code: int
    group_id: str
    error_message: str | None = None
    state: str = ""
    epoch: int = 0
    target_epoch: int = 0
    assignor: str = ""
    members: tuple[DescribedShareMember, ...] = ()


@slotted
class ShareHeartbeatReply:
    """The reply to ShareGroupHeartbeat. An error reply has an error message and no other field."""

    error_code: int
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None
    """All partitions of the member, by topic id; None if they have not changed."""


@slotted
class ShareOffsetsReply:
    """The reply to DescribeShareGroupOffsets, AlterShareGroupOffsets and DeleteShareGroupOffsets.
    It has the partitions whose delivery state the broker must read, initialize or delete."""

    error_code: int
    error_message: str | None = None
    state_epoch: int = 0
    """The state epoch with which the broker must initialize the delivery states."""
    topics: Assignment = field(default_factory=dict)


class EndpointTopics(NamedTuple):
    """The partitions that the members at one endpoint read with their active tasks and with their
    standby tasks."""

    endpoint: Endpoint
    active: Sequence[tuple[str, Sequence[int]]]
    standby: Sequence[tuple[str, Sequence[int]]]


@slotted
class StreamsHeartbeatReply:
    """The reply to StreamsGroupHeartbeat. An error reply has an error message and no other
    field."""

    error_code: int
    error_message: str | None = None
    member_id: str = ""
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    status: tuple[tuple[int, str], ...] = ()
    """The status codes (`StatusCode`), each with its text."""
    assignment: TaskRoles | None = None
    """All tasks of the member; None if the tasks are unchanged."""
    endpoint_epoch: int = 0
    endpoints: tuple[EndpointTopics, ...] | None = None
    """The topics of each endpoint; None if the client already has the endpoints of this
    ``endpoint_epoch``."""
    missing_topics: tuple[InternalTopic, ...] = ()
    """The internal topics that the broker creates after it has sent the reply."""


class DescribedStreamsMember(NamedTuple):
    """A member in a StreamsGroupDescribe reply."""

    member_id: str
    metadata: StreamsMemberMetadata
    epoch: int
    assignment: TaskRoles
    target: TaskRoles


@slotted
class StreamsDescribeReply:
    """The reply to one group of a StreamsGroupDescribe."""

    error_code: int
    group_id: str
    error_message: str | None = None
    state: str = ""
    epoch: int = 0
    target_epoch: int = 0
    topology: Topology | None = None
    """The topology of the group. If the group is ready, the topology contains the partition counts
    of the internal topics."""
    members: tuple[DescribedStreamsMember, ...] = ()


Reply = (
    int
    | ConsumerDescribeReply
    | ConsumerHeartbeatReply
    | JoinReply
    | SyncReply
    | LeaveReply
    | CommitReply
    | FetchReply
    | DescribeReply
    | ListReply
    | OffsetDeleteReply
    | ShareDescribeReply
    | ShareHeartbeatReply
    | ShareOffsetsReply
    | StreamsDescribeReply
    | StreamsHeartbeatReply
)


class Outcome(NamedTuple):
    """The result of one step. The caller first appends ``records``, then releases ``replies`` when
    the records are stable, then emits ``events``."""

    records: Sequence[Run | OwnBatch] = ()
    replies: Sequence[tuple[Ticket, Reply]] = ()
    events: Sequence[Event] = ()


NOTHING = Outcome()


def answered(ticket: Ticket, reply: Reply) -> Outcome:
    """Returns an outcome that has only one reply. The function avoids the slower constructor of
    NamedTuple."""
    return tuple.__new__(Outcome, ((), ((ticket, reply),), ()))
