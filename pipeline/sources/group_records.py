"""Converts the records of groups to columns of `EVENTS`.

The keys of consumer group (KIP-848), share group (KIP-932) and streams group (KIP-1071) records
contain a group id, and some also a member id. `protocol.log_records` defines the fields of keys and
values.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Mapping
from typing import Any, Final

from offsets.record_values import Malformed
from offsets.runs import GroupMember, GroupValue
from pipeline.model.events import GROUP_TYPES, RECORD_KINDS
from pipeline.sources.log_times import time_or_none
from protocol.consumer_protocol import CONSUMER, assigned_partitions, subscribed_topics
from protocol.errors import ProtocolError
from protocol.log_records import BY_NAME
from protocol.schema import UUID, Array, LogRecord, Primitive, Struct, Type

TopicNames = Mapping[str, str]
"""Topic names by topic id, in Kafka's text form of a UUID."""


def _by_type(end: str) -> dict[int, LogRecord]:
    return {
        record.record_type: record
        for record in BY_NAME.values()
        if record.name.endswith(end) and record.record_type in RECORD_KINDS
    }


_KEYS: Final = _by_type("Key")
_VALUES: Final = _by_type("Value")
_GROUP_TYPE: Final = {
    number: group_type
    for number, kind in RECORD_KINDS.items()
    for group_type in GROUP_TYPES
    if kind.startswith(f"{group_type}_")
}
_EPOCHS: Final = {
    number: name
    for number, record in _VALUES.items()
    for name in ("epoch", "assignment_epoch", "member_epoch")
    if any(field.name == name for field in record.fields)
    and not record.name.endswith("TopologyValue")  # a topology's epoch is its own
}
_HOLDS: Final = ("topic_partitions", "assigned_partitions")


def knows_version(record_type: int, version: int) -> bool:
    """Returns True if a value with this version can be decoded."""
    return version in _VALUES[record_type].versions


def key_columns(record_type: int, key: bytes) -> dict[str, Any]:
    """Decodes the key of one of `RECORD_KINDS` to columns. A tombstone has no other columns.

    Raises Malformed if the key is invalid.
    """
    fields = _decode(_KEYS[record_type], 0, key)
    columns = {
        "group_id": fields.pop("group_id"),
        "member_id": fields.pop("member_id", None),
        "protocol_type": _GROUP_TYPE[record_type],
    }
    if fields:
        columns["details"] = json.dumps(fields)
    return columns


def columns(record_type: int, key: bytes, value: bytes, names: TopicNames) -> dict[str, Any]:
    """Decodes the key and the value of one of `RECORD_KINDS`. The value must have a known version.

    The column ``details`` contains the fields of the value, and the key fields other than group and
    member, such as a regular expression. Raises Malformed.
    """
    found = key_columns(record_type, key)
    record = _VALUES[record_type]
    version = int.from_bytes(value[:2], "big", signed=True)
    fields = _decode(record, version, value)
    found["generation"] = fields.get(_EPOCHS.get(record_type, ""))
    found["protocol"] = fields.get("server_assignor")
    if found["member_id"] is not None:
        found["members"] = [_member(found["member_id"], fields, names)]
    of_key = json.loads(found.get("details", "{}"))
    found["details"] = json.dumps({**of_key, **_plain(Struct(*record.fields), fields, names)})
    return found


def classic_columns(value: GroupValue) -> dict[str, Any]:
    """Converts the value of a classic group's record to columns."""
    consumers = value.protocol_type == CONSUMER
    return {
        "protocol_type": value.protocol_type,
        "generation": value.generation_id,
        "protocol": value.protocol_name,
        "leader": value.leader,
        "state_at": time_or_none(value.state_timestamp_ms),
        "members": [_classic_member(member, consumers) for member in value.members],
    }


def _classic_member(member: GroupMember, consumers: bool) -> dict[str, Any]:
    """Converts a member of a classic group. If ``consumers`` is False, the group is not of protocol
    type consumer, so subscription and assignment are null."""
    subscription: list[str] | None = None
    assignment: list[dict[str, Any]] | None = None
    if consumers:
        try:
            subscription = subscribed_topics(member.subscription)
            assignment = [
                {"topic": topic, "topic_id": None, "partitions": partitions}
                for topic, partitions in assigned_partitions(member.assignment).items()
            ]
        except (ProtocolError, struct.error):
            pass
    return {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "session_timeout_ms": member.session_timeout_ms,
        "subscription": subscription,
        "assignment": assignment,
    }


def topic_id_text(topic_id: bytes) -> str:
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()


def _decode(record: LogRecord, version: int, data: bytes) -> dict[str, Any]:
    """Decodes a key or a value. Skips the first two bytes of ``data``: the type in a key, the
    version in a value."""
    try:
        return record.message(version).decode(data, 2)
    except ProtocolError as error:
        raise Malformed(str(error)) from None


def _member(member_id: str, fields: dict[str, Any], names: TopicNames) -> dict[str, Any]:
    """Returns a member with the fields of `MEMBERS`. Fields that the record does not contain are
    null."""
    classic = fields.get("classic_member_metadata") or {}
    holds = next((fields[name] for name in _HOLDS if name in fields), None)
    return {
        "member_id": member_id,
        "group_instance_id": fields.get("instance_id"),
        "client_id": fields.get("client_id"),
        "client_host": fields.get("client_host"),
        "rebalance_timeout_ms": fields.get("rebalance_timeout_ms"),
        "session_timeout_ms": classic.get("session_timeout_ms"),
        "subscription": fields.get("subscribed_topic_names"),
        "assignment": None if holds is None else [_holding(each, names) for each in holds],
    }


def _holding(fields: dict[str, Any], names: TopicNames) -> dict[str, Any]:
    topic_id = topic_id_text(fields["topic_id"])
    return {
        "topic": names.get(topic_id),
        "topic_id": topic_id,
        "partitions": fields["partitions"],
    }


def _plain(kind: Type, value: Any, names: TopicNames) -> Any:
    """Converts a value for JSON: UUIDs to Kafka's text form, bytes to base64. A struct that
    contains a topic id also receives the topic's name as ``topic``, if the name is known."""
    if value is None:
        return None
    if isinstance(kind, Struct):
        found = {
            f.name: _plain(f.type, value[f.name], names) for f in kind.fields if f.name in value
        }
        topic = names.get(found.get("topic_id", ""))
        return found if topic is None else {"topic": topic, **found}
    if isinstance(kind, Array):
        return [_plain(kind.element, each, names) for each in value]
    assert isinstance(kind, Primitive)
    if kind is UUID:
        return topic_id_text(value)
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value
