"""Replies that carry only an error, for calls that the core never sees."""

from __future__ import annotations

from coordinator.calls import (
    Call,
    DeleteGroup,
    DescribeGroup,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    SyncGroup,
)
from coordinator.outcome import (
    CommitReply,
    DescribeReply,
    FetchReply,
    JoinReply,
    LeaveReply,
    ListReply,
    OffsetDeleteReply,
    Reply,
    SyncReply,
)
from protocol.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    INVALID_GROUP_ID,
    NONE,
    REBALANCE_IN_PROGRESS,
)

MUST_NAME_GROUP = (JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetDelete)
"""Calls that get INVALID_GROUP_ID for an empty group id, before anything else of them is looked at,
as in Kafka; the others may have one."""


def not_served(call: Call, error_code: int) -> Reply:
    """The reply to a call whose shard does not serve it, for the reason ``error_code``."""
    if isinstance(call, MUST_NAME_GROUP) and not call.group_id:
        error_code = INVALID_GROUP_ID
    return refusal(call, error_code)


def refusal(call: Call, error_code: int) -> Reply:
    """The reply to a call that carries only an error."""
    match call:
        case Heartbeat() | DeleteGroup():
            return error_code
        case JoinGroup():
            return JoinReply(error_code, call.member_id)
        case SyncGroup():
            return SyncReply(error_code)
        case LeaveGroup():
            return LeaveReply(error_code)
        case OffsetCommit():
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
    """The error while the shard loads.

    Heartbeat gets none, so that members do not leave, and SyncGroup what old clients expect there.
    """
    match call:
        case Heartbeat():
            return NONE
        case SyncGroup():
            return REBALANCE_IN_PROGRESS
        case _:
            return COORDINATOR_LOAD_IN_PROGRESS
