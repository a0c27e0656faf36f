"""Encodes and decodes the keys and values of the records of consumer groups.

The schemas in this module handle all records; consumer_bytes.py handles the frequent records
faster. Source: Kafka 4.3.1, schemas ``ConsumerGroup*Key`` and ``ConsumerGroup*Value``, all in
version 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from offsets.consumer_bytes import NOT_READ, READERS, WRITERS, read_key
from offsets.consumer_records import (
    AssignedEpochs,
    Assignment,
    ClassicMember,
    ConsumerRecord,
    CurrentAssignment,
    CurrentRecord,
    EpochRecord,
    GroupEpoch,
    MemberMetadata,
    MemberRecord,
    RegexRecord,
    ResolvedRegex,
    TargetEpoch,
    TargetEpochRecord,
    TargetRecord,
    TopicsRecord,
)
from offsets.record_values import Malformed, string
from protocol import log_records
from protocol.errors import ProtocolError


def encode_key(group_id: str, record: ConsumerRecord) -> bytes:
    """Returns the encoded key of a record, with its type. Raises UnwritableRun for a string above
    32767 bytes."""
    head = _KEY_HEADS[type(record)] + string(group_id)
    if isinstance(record, MemberRecord | TargetRecord | CurrentRecord):
        return head + string(record.member_id)
    if isinstance(record, RegexRecord):
        return head + string(record.regex)
    return head


def encode_value(record: ConsumerRecord) -> bytes | None:
    """Returns the encoded value of a record, with its version 0; None for a tombstone."""
    if record.value is None:
        return None
    write = WRITERS.get(type(record))
    return (write and write(record.value)) or encode_by_schema(record)


def encode_by_schema(record: ConsumerRecord) -> bytes:
    """Encodes the value of a record by its schema. The record must not be a tombstone."""
    _, name, to_fields, _ = _FORMATS[type(record)]
    return b"\0\0" + log_records.encode(f"{name}Value", 0, to_fields(record.value))


def decode(key: bytes, value: bytes | None) -> tuple[str, ConsumerRecord] | None:
    """Decodes a stored key and value. Returns the group id and the record; None if the key has
    another type. Raises Malformed if the bytes are invalid for the key's type, or if the version of
    the value is unknown."""
    made = _BY_TYPE.get(int.from_bytes(key[:2], "big", signed=True))
    if made is None:
        return None
    read = READERS.get(made)
    if read is not None and (value is None or value[:2] == b"\0\0"):
        try:
            group_id, *more = read_key(key, made in _OF_MEMBERS)
            return group_id, made(*more, None if value is None else read(value))
        except NOT_READ:
            pass
    return decode_by_schema(key, value)


def decode_by_schema(key: bytes, value: bytes | None) -> tuple[str, ConsumerRecord]:
    """Decodes a stored key and value by their schemas. Returns the group id and the record. The key
    must have one of the types of this module."""
    _, name, _, from_fields = _FORMATS[made := _BY_TYPE[int.from_bytes(key[:2], "big")]]
    try:
        fields = log_records.decode(f"{name}Key", 0, key, 2)
        group_id: str = fields.pop("group_id")
        content = None
        if value is not None:
            if len(value) < 2:
                raise Malformed(
                    f"{name}Value: a value of {len(value)} bytes is too short to contain a version"
                )
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


def _member_fields(value: MemberMetadata) -> dict[str, Any]:
    classic = value.classic
    return {
        "instance_id": value.instance_id,
        "rack_id": value.rack_id,
        "client_id": value.client_id,
        "client_host": value.client_host,
        "subscribed_topic_names": value.subscribed_topics,
        "subscribed_topic_regex": value.subscribed_regex,
        "rebalance_timeout_ms": value.rebalance_timeout_ms,
        "server_assignor": value.server_assignor,
        "classic_member_metadata": None
        if classic is None
        else {
            "session_timeout_ms": classic.session_timeout_ms,
            "supported_protocols": [
                {"name": name, "metadata": metadata} for name, metadata in classic.protocols
            ],
        },
    }


def _member_metadata(fields: dict[str, Any]) -> MemberMetadata:
    classic = fields["classic_member_metadata"]
    return MemberMetadata(
        fields["instance_id"],
        fields["rack_id"],
        fields["client_id"],
        fields["client_host"],
        tuple(fields["subscribed_topic_names"]),
        fields["subscribed_topic_regex"],
        fields["rebalance_timeout_ms"],
        fields["server_assignor"],
        None
        if classic is None
        else ClassicMember(
            classic["session_timeout_ms"],
            tuple((each["name"], each["metadata"]) for each in classic["supported_protocols"]),
        ),
    )


def _current_fields(value: CurrentAssignment) -> dict[str, Any]:
    return {
        "member_epoch": value.epoch,
        "previous_member_epoch": value.previous_epoch,
        "state": value.state,
        "assigned_partitions": _epoch_fields(value.assigned),
        "partitions_pending_revocation": _epoch_fields(value.revoking),
    }


def _epoch_fields(partitions: AssignedEpochs) -> list[dict[str, Any]]:
    return [
        {
            "topic_id": topic_id,
            "partitions": list(epochs),
            "assignment_epochs": list(epochs.values()),
        }
        for topic_id, epochs in partitions.items()
    ]


def _current(fields: dict[str, Any]) -> CurrentAssignment:
    epoch = fields["member_epoch"]
    return CurrentAssignment(
        epoch,
        fields["previous_member_epoch"],
        fields["state"],
        _epochs(fields["assigned_partitions"], epoch),
        _epochs(fields["partitions_pending_revocation"], epoch),
    )


def _epochs(topics: Sequence[dict[str, Any]], member_epoch: int) -> AssignedEpochs:
    """Returns, for each partition, the epoch at which the member got the partition. A topic with
    missing epochs, or with a wrong number of epochs, gets the member's epoch for all its partitions
    (Kafka 4.3.1)."""
    found = {}
    for each in topics:
        partitions, epochs = each["partitions"], each["assignment_epochs"]
        if epochs is None or len(epochs) != len(partitions):
            epochs = [max(0, member_epoch)] * len(partitions)
        if partitions:
            found[each["topic_id"]] = dict(sorted(zip(partitions, epochs, strict=True)))
    return found


def _target_fields(value: Assignment) -> dict[str, Any]:
    return {
        "topic_partitions": [
            {"topic_id": topic_id, "partitions": list(partitions)}
            for topic_id, partitions in value.items()
        ]
    }


def _target(fields: dict[str, Any]) -> Assignment:
    return {
        each["topic_id"]: tuple(sorted(each["partitions"]))
        for each in fields["topic_partitions"]
        if each["partitions"]
    }


_FORMATS: Final[
    dict[type, tuple[int, str, Callable[[Any], dict[str, Any]], Callable[..., Any]]]
] = {
    EpochRecord: (
        3,
        "ConsumerGroupMetadata",
        lambda value: {"epoch": value.epoch, "metadata_hash": value.metadata_hash},
        lambda fields: GroupEpoch(fields["epoch"], fields["metadata_hash"]),
    ),
    TopicsRecord: (
        4,
        "ConsumerGroupPartitionMetadata",
        lambda _: {"topics": []},
        lambda _: True,
    ),
    MemberRecord: (5, "ConsumerGroupMemberMetadata", _member_fields, _member_metadata),
    TargetEpochRecord: (
        6,
        "ConsumerGroupTargetAssignmentMetadata",
        lambda value: {
            "assignment_epoch": value.epoch,
            "assignment_timestamp": value.timestamp_ms,
        },
        lambda fields: TargetEpoch(fields["assignment_epoch"], fields["assignment_timestamp"]),
    ),
    TargetRecord: (7, "ConsumerGroupTargetAssignmentMember", _target_fields, _target),
    CurrentRecord: (8, "ConsumerGroupCurrentMemberAssignment", _current_fields, _current),
    RegexRecord: (
        16,
        "ConsumerGroupRegularExpression",
        lambda value: {
            "topics": value.topics,
            "version": value.version,
            "timestamp": value.timestamp_ms,
        },
        lambda fields: ResolvedRegex(
            tuple(fields["topics"]), fields["version"], fields["timestamp"]
        ),
    ),
}
"""For each type of record: the key type, the name of the key and value schemas, the function that
converts a value to fields, and the function that converts fields to a value."""

_BY_TYPE: Final = {key_type: made for made, (key_type, *_) in _FORMATS.items()}
_KEY_HEADS: Final = {made: kind.to_bytes(2, "big") for kind, made in _BY_TYPE.items()}
_OF_MEMBERS: Final = (MemberRecord, TargetRecord, CurrentRecord)
