"""Encodes and decodes the keys and values of the records of share groups, by Kafka's schemas.

Source: Kafka 4.3.1, schemas ``ShareGroup*Key`` and ``ShareGroup*Value``, all in version 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from offsets.consumer_records import Assignment
from offsets.record_values import Malformed, string
from offsets.share_records import (
    ShareCurrentAssignment,
    ShareCurrentRecord,
    ShareEpochRecord,
    ShareGroupEpoch,
    ShareMemberMetadata,
    ShareMemberRecord,
    ShareRecord,
    ShareTargetEpoch,
    ShareTargetEpochRecord,
    ShareTargetRecord,
    StatePartitions,
    StatePartitionsRecord,
)
from protocol import log_records
from protocol.errors import ProtocolError


def encode_key(group_id: str, record: ShareRecord) -> bytes:
    """Returns the key of a record, including its type. Raises UnwritableRun for a string above
    32767 bytes."""
    head = _KEY_HEADS[type(record)] + string(group_id)
    if isinstance(record, ShareMemberRecord | ShareTargetRecord | ShareCurrentRecord):
        return head + string(record.member_id)
    return head


def encode_value(record: ShareRecord) -> bytes | None:
    """Returns the value of a record, including its version 0; None for a tombstone."""
    if record.value is None:
        return None
    _, name, to_fields, _ = _FORMATS[type(record)]
    return b"\0\0" + log_records.encode(f"{name}Value", 0, to_fields(record.value))


def decode(key: bytes, value: bytes | None) -> tuple[str, ShareRecord] | None:
    """Returns the group id and the record in a stored key and value; None if the key has another
    type.

    Raises Malformed if the bytes are invalid for the key's type, or if the value's version is
    unknown.
    """
    made = _BY_TYPE.get(int.from_bytes(key[:2], "big", signed=True))
    if made is None:
        return None
    _, name, _, from_fields = _FORMATS[made]
    try:
        fields = log_records.decode(f"{name}Key", 0, key, 2)
        group_id: str = fields.pop("group_id")
        content = None
        if value is not None:
            if len(value) < 2:
                raise Malformed(f"{name}Value: a value of {len(value)} bytes has no version")
            version = int.from_bytes(value[:2], "big", signed=True)
            if version != 0:
                raise Malformed(
                    f"version {version} of {name}Value is unknown; a newer Kafka may have written"
                    " it: open the directory with a newer Muster"
                )
            content = from_fields(log_records.decode(f"{name}Value", 0, value, 2))
    except ProtocolError as error:
        raise Malformed(f"{name}: {error}") from None
    return group_id, made(*fields.values(), content)


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


_FORMATS: Final[
    dict[type, tuple[int, str, Callable[[Any], dict[str, Any]], Callable[..., Any]]]
] = {
    ShareMemberRecord: (10, "ShareGroupMemberMetadata", _member_fields, _member),
    ShareEpochRecord: (
        11,
        "ShareGroupMetadata",
        lambda value: {"epoch": value.epoch, "metadata_hash": value.metadata_hash},
        lambda fields: ShareGroupEpoch(fields["epoch"], fields["metadata_hash"]),
    ),
    ShareTargetEpochRecord: (
        12,
        "ShareGroupTargetAssignmentMetadata",
        lambda value: {
            "assignment_epoch": value.epoch,
            "assignment_timestamp": value.timestamp_ms,
        },
        lambda fields: ShareTargetEpoch(fields["assignment_epoch"], fields["assignment_timestamp"]),
    ),
    ShareTargetRecord: (
        13,
        "ShareGroupTargetAssignmentMember",
        lambda value: {"topic_partitions": _partition_fields(value)},
        lambda fields: _partitions(fields["topic_partitions"]),
    ),
    ShareCurrentRecord: (14, "ShareGroupCurrentMemberAssignment", _current_fields, _current),
    StatePartitionsRecord: (15, "ShareGroupStatePartitionMetadata", _state_fields, _state),
}
"""For each type of record: the key type, the name of the key and value schemas, and the functions
that convert a value to fields and fields to a value."""

_BY_TYPE: Final = {key_type: made for made, (key_type, *_) in _FORMATS.items()}
_KEY_HEADS: Final = {made: kind.to_bytes(2, "big") for kind, made in _BY_TYPE.items()}
