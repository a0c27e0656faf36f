"""Encodes and decodes the keys and values of the records of share groups, by Kafka's schemas.

Source: Kafka 4.3.1, schemas ``ShareGroup*Key`` and ``ShareGroup*Value``, all in version 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from offsets.consumer_records import Assignment
from offsets.schema_codec import Format, SchemaCodec
from offsets.share_records import (
    ShareCurrentAssignment,
    ShareCurrentRecord,
    ShareEpochRecord,
    ShareGroupEpoch,
    ShareMemberMetadata,
    ShareMemberRecord,
    ShareTargetEpoch,
    ShareTargetEpochRecord,
    ShareTargetRecord,
    StatePartitions,
    StatePartitionsRecord,
)


def _partition_fields(assignment: Assignment) -> list[dict[str, Any]]:
    return [
        {"topic_id": topic_id, "partitions": list(partitions)}
        for topic_id, partitions in assignment.items()
    ]


def _partitions(topics: Sequence[dict[str, Any]]) -> Assignment:
    return {
        each["topic_id"]: tuple(sorted(each["partitions"])) for each in topics if each["partitions"]
    }


def _member_fields(value: ShareMemberMetadata) -> dict[str, Any]:
    return {
        "rack_id": value.rack_id,
        "client_id": value.client_id,
        "client_host": value.client_host,
        "subscribed_topic_names": value.subscribed_topics,
    }


def _member(fields: dict[str, Any]) -> ShareMemberMetadata:
    return ShareMemberMetadata(
        fields["rack_id"],
        fields["client_id"],
        fields["client_host"],
        tuple(fields["subscribed_topic_names"]),
    )


def _current_fields(value: ShareCurrentAssignment) -> dict[str, Any]:
    return {
        "member_epoch": value.epoch,
        "previous_member_epoch": value.previous_epoch,
        "state": value.state,
        "assigned_partitions": _partition_fields(value.assigned),
    }


def _current(fields: dict[str, Any]) -> ShareCurrentAssignment:
    return ShareCurrentAssignment(
        fields["member_epoch"],
        fields["previous_member_epoch"],
        fields["state"],
        _partitions(fields["assigned_partitions"]),
    )


_Named = Mapping[bytes, tuple[str, tuple[int, ...]]]


def _named_fields(topics: _Named) -> list[dict[str, Any]]:
    return [
        {"topic_id": topic_id, "topic_name": name, "partitions": list(partitions)}
        for topic_id, (name, partitions) in topics.items()
    ]


def _named(topics: Sequence[dict[str, Any]]) -> _Named:
    return {
        each["topic_id"]: (each["topic_name"], tuple(sorted(each["partitions"]))) for each in topics
    }


def _state_fields(value: StatePartitions) -> dict[str, Any]:
    return {
        "initializing_topics": _named_fields(value.initializing),
        "initialized_topics": _named_fields(value.initialized),
        "deleting_topics": [
            {"topic_id": topic_id, "topic_name": name} for topic_id, name in value.deleting.items()
        ],
    }


def _state(fields: dict[str, Any]) -> StatePartitions:
    return StatePartitions(
        _named(fields["initializing_topics"]),
        _named(fields["initialized_topics"]),
        {each["topic_id"]: each["topic_name"] for each in fields["deleting_topics"]},
    )


SHARE = SchemaCodec(
    {
        ShareMemberRecord: Format(10, "ShareGroupMemberMetadata", _member_fields, _member),
        ShareEpochRecord: Format(
            11,
            "ShareGroupMetadata",
            lambda value: {"epoch": value.epoch, "metadata_hash": value.metadata_hash},
            lambda fields: ShareGroupEpoch(fields["epoch"], fields["metadata_hash"]),
        ),
        ShareTargetEpochRecord: Format(
            12,
            "ShareGroupTargetAssignmentMetadata",
            lambda value: {
                "assignment_epoch": value.epoch,
                "assignment_timestamp": value.timestamp_ms,
            },
            lambda fields: ShareTargetEpoch(
                fields["assignment_epoch"], fields["assignment_timestamp"]
            ),
        ),
        ShareTargetRecord: Format(
            13,
            "ShareGroupTargetAssignmentMember",
            lambda value: {"topic_partitions": _partition_fields(value)},
            lambda fields: _partitions(fields["topic_partitions"]),
        ),
        ShareCurrentRecord: Format(
            14, "ShareGroupCurrentMemberAssignment", _current_fields, _current
        ),
        StatePartitionsRecord: Format(
            15, "ShareGroupStatePartitionMetadata", _state_fields, _state
        ),
    }
)
"""Encodes and decodes the records of share groups."""
encode_key, encode_value, decode = SHARE.encode_key, SHARE.encode_value, SHARE.decode
