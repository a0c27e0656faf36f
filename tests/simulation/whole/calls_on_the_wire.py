"""Converts calls of the core into requests, and responses into replies of the core.

The same simulated clients run against the core and against a whole broker. The reference codec
encodes their calls in any version that can express the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

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
    DescribedMember,
    DescribeReply,
    FetchReply,
    JoinedMember,
    JoinReply,
    LeaveReply,
    ListedGroup,
    ListReply,
    OffsetDeleteReply,
    Reply,
    SyncReply,
)
from offsets.cache import FetchedColumns
from protocol.errors import NONE
from tests.simulation.whole.client import WireRequest


def request_of(call: Call, chance: Random) -> WireRequest:
    """Returns a request for ``call`` in a random version that can express the call."""
    match call:
        case JoinGroup():
            return _join(call, chance)
        case SyncGroup():
            versions = range(0 if call.group_instance_id is None else 3, 5)
            return WireRequest("SyncGroup", chance.choice(versions), _sync(call))
        case Heartbeat():
            versions = range(0 if call.group_instance_id is None else 3, 5)
            return WireRequest("Heartbeat", chance.choice(versions), _membership(call))
        case LeaveGroup():
            return _leave(call, chance)
        case OffsetCommit():
            return _commit(call, chance)
        case OffsetFetch():
            return _fetch(call, chance)
        case DescribeGroup():
            value = {"groups": [call.group_id], "include_authorized_operations": False}
            return WireRequest("DescribeGroups", chance.randint(0, 5), value)
        case ListGroups():
            lowest = 5 if call.types else 4
            value = {"states_filter": sorted(call.states), "types_filter": sorted(call.types)}
            return WireRequest("ListGroups", chance.randint(lowest, 5), value)
        case DeleteGroup():
            value = {"groups_names": [call.group_id]}
            return WireRequest("DeleteGroups", chance.randint(0, 2), value)
        case OffsetDelete():
            topics = [
                {"name": name, "partitions": [{"partition_index": each} for each in partitions]}
                for name, partitions in call.topics
            ]
            return WireRequest("OffsetDelete", 0, {"group_id": call.group_id, "topics": topics})
    raise AssertionError(call)


def _membership(call: Heartbeat | SyncGroup) -> dict[str, Any]:
    return {
        "group_id": call.group_id,
        "generation_id": call.generation_id,
        "member_id": call.member_id,
        "group_instance_id": call.group_instance_id,
    }


def _join(call: JoinGroup, chance: Random) -> WireRequest:
    if call.supports_skip_assignment:
        version = 9
    elif call.group_instance_id is not None:
        version = chance.randint(5, 8)
    else:
        version = chance.randint(1, 3)
    return WireRequest(
        "JoinGroup",
        version,
        {
            "group_id": call.group_id,
            "session_timeout_ms": call.session_timeout_ms,
            "rebalance_timeout_ms": call.rebalance_timeout_ms,
            "member_id": call.member_id,
            "group_instance_id": call.group_instance_id,
            "protocol_type": call.protocol_type,
            "protocols": [
                {"name": name, "metadata": metadata} for name, metadata in call.protocols
            ],
        },
    )


def _sync(call: SyncGroup) -> dict[str, Any]:
    assignments = [
        {"member_id": member_id, "assignment": assignment}
        for member_id, assignment in call.assignments
    ]
    return {**_membership(call), "assignments": assignments}


def _leave(call: LeaveGroup, chance: Random) -> WireRequest:
    leaver = call.members[0]
    plain = len(call.members) == 1 and leaver.group_instance_id is None and leaver.reason is None
    version = chance.randint(0, 5) if plain else 5
    if version < 3:
        value: dict[str, Any] = {"group_id": call.group_id, "member_id": leaver.member_id}
    else:
        value = {"group_id": call.group_id, "members": [each._asdict() for each in call.members]}
    return WireRequest("LeaveGroup", version, value)


def _commit(call: OffsetCommit, chance: Random) -> WireRequest:
    if call.topics[0].commit_timestamps_ms is not None:
        versions: Sequence[int] = (1,)
    elif call.retention_time_ms != -1:
        versions = (2, 3, 4)
    elif call.group_instance_id is not None:
        versions = (7, 8, 9)
    elif any(epoch != -1 for topic in call.topics for epoch in topic.leader_epochs):
        versions = (6, 7, 8, 9)
    else:
        versions = (2, 3, 4, 5, 6, 7, 8, 9)
    topics = []
    for topic in call.topics:
        columns = zip(
            topic.partitions,
            topic.offsets,
            topic.leader_epochs,
            topic.metadata or [""] * len(topic.partitions),
            topic.commit_timestamps_ms or [-1] * len(topic.partitions),
            strict=True,
        )
        partitions = [
            {
                "partition_index": partition,
                "committed_offset": offset,
                "committed_leader_epoch": epoch,
                "committed_metadata": metadata,
                "commit_timestamp": stamp,
            }
            for partition, offset, epoch, metadata, stamp in columns
        ]
        topics.append({"name": topic.topic, "partitions": partitions})
    return WireRequest(
        "OffsetCommit",
        chance.choice(versions),
        {
            "group_id": call.group_id,
            "generation_id_or_member_epoch": call.generation_id,
            "member_id": call.member_id,
            "group_instance_id": call.group_instance_id,
            "retention_time_ms": call.retention_time_ms,
            "topics": topics,
        },
    )


def _fetch(call: OffsetFetch, chance: Random) -> WireRequest:
    version = chance.randint(1 if call.topics is not None else 2, 9)
    topics = None
    if call.topics is not None:
        topics = [
            {"name": name, "partition_indexes": list(partitions)}
            for name, partitions in call.topics
        ]
    value: dict[str, Any] = {"group_id": call.group_id, "topics": topics}
    if version >= 8:
        value = {"groups": [value]}
    return WireRequest("OffsetFetch", version, {**value, "require_stable": call.require_stable})


def reply_of(call: Call, version: int, value: dict[str, Any]) -> Reply:
    """Converts the response to ``call`` into a reply of the core."""
    match call:
        case JoinGroup():
            members = [JoinedMember(**member) for member in value["members"]]
            return JoinReply(
                value["error_code"],
                value["member_id"],
                value["generation_id"],
                value["protocol_type"],
                value["protocol_name"],
                value["leader"],
                value["skip_assignment"],
                members,
            )
        case SyncGroup():
            return SyncReply(
                value["error_code"],
                value["protocol_type"],
                value["protocol_name"],
                value["assignment"],
            )
        case Heartbeat():
            code: int = value["error_code"]
            return code
        case LeaveGroup():
            left = [
                (each["member_id"], each["group_instance_id"], each["error_code"])
                for each in value["members"]
            ]
            return LeaveReply(value["error_code"], left)
        case OffsetCommit():
            return _committed(value)
        case OffsetFetch():
            return _fetched(value["groups"][0] if version >= 8 else value, version)
        case DescribeGroup():
            return _described(value["groups"][0])
        case ListGroups():
            listed = [
                ListedGroup(
                    each["group_id"],
                    each["protocol_type"],
                    each["group_state"],
                    each["group_type"] or "classic",
                )
                for each in value["groups"]
            ]
            return ListReply(value["error_code"], listed)
        case DeleteGroup():
            code = value["results"][0]["error_code"]
            return code
        case OffsetDelete():
            deleted = [
                (
                    topic["name"],
                    [(p["partition_index"], p["error_code"]) for p in topic["partitions"]],
                )
                for topic in value["topics"]
            ]
            return OffsetDeleteReply(value["error_code"], deleted)
    raise AssertionError(call)


def _committed(value: dict[str, Any]) -> CommitReply:
    """Converts an OffsetCommit response to a reply. If all partitions have the same error code, the
    reply has only this code, because a commit that failed as a whole has one code in every
    partition."""
    columns = [[p["error_code"] for p in topic["partitions"]] for topic in value["topics"]]
    codes = {code for column in columns for code in column}
    return CommitReply(codes.pop() if len(codes) == 1 else columns)


def _fetched(value: dict[str, Any], version: int) -> FetchReply:
    """Converts an OffsetFetch response. A response of version 1 has no error of the group, but an
    error per partition."""
    topics = []
    for topic in value["topics"]:
        partitions = topic["partitions"]
        metadata = [p["metadata"] for p in partitions]
        columns = (
            [p["partition_index"] for p in partitions],
            [p["committed_offset"] for p in partitions],
            [p["committed_leader_epoch"] for p in partitions],
            metadata if any(metadata) else None,
        )
        codes = [p["error_code"] for p in partitions]
        topics.append(FetchedColumns(topic["name"], *columns, codes if any(codes) else NONE))
    if version < 2:
        errors = {
            topic.codes if isinstance(topic.codes, int) else topic.codes[0] for topic in topics
        }
        [error] = errors or {NONE}
        return FetchReply(error, () if error else topics)
    return FetchReply(value["error_code"], topics)


def _described(value: dict[str, Any]) -> DescribeReply:
    members = [
        DescribedMember(
            each["member_id"],
            each["group_instance_id"],
            each["client_id"],
            each["client_host"],
            each["member_metadata"],
            each["member_assignment"],
        )
        for each in value["members"]
    ]
    return DescribeReply(
        value["error_code"],
        value["group_id"],
        value["group_state"],
        value["protocol_type"],
        value["protocol_data"],
        members,
    )
