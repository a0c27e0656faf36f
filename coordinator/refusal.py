"""Replies that have only an error: to calls that a shard does not handle, and to calls whose
records could not be written.

A handler creates its reply before its records are written. If the write fails or takes too long,
each reply that depends on the records is replaced by a reply of the same type that has only the
error.
"""

from __future__ import annotations

from coordinator.calls import (
    Call,
    ConsumerGroupDescribe,
    ConsumerHeartbeat,
    DeleteGroup,
    DescribeGroup,
    EndOffsets,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    ShareGroupDescribe,
    ShareHeartbeat,
    ShareOffsetsAlter,
    ShareOffsetsDelete,
    ShareOffsetsDescribe,
    SyncGroup,
    TxnOffsetCommit,
)
from coordinator.outcome import (
    CommitReply,
    ConsumerDescribeReply,
    ConsumerHeartbeatReply,
    DescribeReply,
    FetchReply,
    JoinReply,
    LeaveReply,
    ListReply,
    OffsetDeleteReply,
    Reply,
    ShareDescribeReply,
    ShareHeartbeatReply,
    ShareOffsetsReply,
    StreamsDescribeReply,
    StreamsHeartbeatReply,
    SyncReply,
)
from coordinator.streams.calls import StreamsGroupDescribe, StreamsHeartbeat
from protocol.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    INVALID_GROUP_ID,
    NONE,
    NOT_COORDINATOR,
    REBALANCE_IN_PROGRESS,
)

MUST_NAME_GROUP = (JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetDelete, TxnOffsetCommit)
"""Calls that get INVALID_GROUP_ID for an empty group id before any other check, as in Kafka. All
other calls accept an empty group id."""


def not_served(call: Call, error_code: int) -> Reply:
    """Returns the reply to a call that this broker can't handle now. ``error_code`` is the reason,
    such as NOT_COORDINATOR. Some calls with an empty group id get INVALID_GROUP_ID instead."""
    if isinstance(call, MUST_NAME_GROUP) and not call.group_id:
        error_code = INVALID_GROUP_ID
    return refusal(call, error_code)


def refusal(call: Call, error_code: int) -> Reply:
    match call:
        case Heartbeat() | DeleteGroup() | EndOffsets():
            return error_code
        case JoinGroup():
            return JoinReply(error_code, call.member_id)
        case ConsumerGroupDescribe():
            return ConsumerDescribeReply(error_code, call.group_id)
        case ConsumerHeartbeat():
            return ConsumerHeartbeatReply(error_code)
        case ShareGroupDescribe():
            return ShareDescribeReply(error_code, call.group_id)
        case ShareHeartbeat():
            return ShareHeartbeatReply(error_code)
        case ShareOffsetsAlter() | ShareOffsetsDelete() | ShareOffsetsDescribe():
            return ShareOffsetsReply(error_code)
        case StreamsGroupDescribe():
            return StreamsDescribeReply(error_code, call.group_id)
        case StreamsHeartbeat():
            return StreamsHeartbeatReply(error_code)
        case SyncGroup():
            return SyncReply(error_code)
        case LeaveGroup():
            return LeaveReply(error_code)
        case OffsetCommit() | TxnOffsetCommit():
            return CommitReply(error_code)
        case OffsetFetch():
            return FetchReply(error_code)
        case DescribeGroup():
            return DescribeReply(error_code, call.group_id)
        case ListGroups():
            return ListReply(error_code)
        case OffsetDelete():
            return OffsetDeleteReply(error_code)


def loading_error(call: Call) -> int:
    """Returns the error code for a call that arrives while the shard is being loaded.

    Heartbeat gets NONE, so that members do not leave. SyncGroup gets REBALANCE_IN_PROGRESS, which
    old clients expect.
    """
    match call:
        case Heartbeat():
            return NONE
        case SyncGroup():
            return REBALANCE_IN_PROGRESS
        case _:
            return COORDINATOR_LOAD_IN_PROGRESS


def failed(reply: Reply, error_code: int) -> Reply:
    """Returns a reply of the same type as ``reply`` that has only ``error_code``."""
    if isinstance(reply, int):
        return error_code
    if isinstance(reply, CommitReply):
        return CommitReply(error_code)
    if isinstance(reply, ConsumerDescribeReply):
        return ConsumerDescribeReply(error_code, reply.group_id)
    if isinstance(reply, ConsumerHeartbeatReply):
        return ConsumerHeartbeatReply(error_code)
    if isinstance(reply, ShareDescribeReply):
        return ShareDescribeReply(error_code, reply.group_id)
    if isinstance(reply, ShareHeartbeatReply):
        return ShareHeartbeatReply(error_code)
    if isinstance(reply, ShareOffsetsReply):
        return ShareOffsetsReply(error_code)
    if isinstance(reply, StreamsDescribeReply):
        return StreamsDescribeReply(error_code, reply.group_id)
    if isinstance(reply, StreamsHeartbeatReply):
        return StreamsHeartbeatReply(error_code)
    if isinstance(reply, JoinReply):
        return JoinReply(error_code, reply.member_id)
    if isinstance(reply, SyncReply):
        return SyncReply(error_code)
    if isinstance(reply, LeaveReply):
        return LeaveReply(error_code)
    if isinstance(reply, FetchReply):
        return FetchReply(error_code)
    if isinstance(reply, DescribeReply):
        return DescribeReply(error_code, reply.group_id)
    if isinstance(reply, ListReply):
        return ListReply(error_code)
    return OffsetDeleteReply(error_code)


def write_failed(reply: Reply) -> Reply:
    """Returns the reply to send in place of a reply whose records could not be appended. The error
    is NOT_COORDINATOR, to which Kafka maps KAFKA_STORAGE_ERROR. Source: Kafka 3.9
    ``GroupMetadataManager``, the mapping of append errors."""
    return failed(reply, NOT_COORDINATOR)


def timed_out(reply: Reply) -> Reply:
    """Returns the reply to a call whose records were not stable within
    ``offsets.commit.timeout.ms``.

    SyncGroup gets REBALANCE_IN_PROGRESS, as in Kafka up to 3.9. All other requests get
    COORDINATOR_NOT_AVAILABLE, as in Kafka 4.x. Clients retry after each of these errors.
    """
    if isinstance(reply, SyncReply):
        return failed(reply, REBALANCE_IN_PROGRESS)
    return failed(reply, COORDINATOR_NOT_AVAILABLE)
