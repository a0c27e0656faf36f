"""Decodes records of Kafka's internal topics: offsets, groups, transactions, states of share
partitions, and markers. The fields have Kafka's names, from the tables of
`protocol/log_records.py`. If a record can't be decoded, its bytes are shown and the dump continues.
"""

from __future__ import annotations

import base64
import struct
from enum import StrEnum
from typing import Any

from protocol import log_records
from protocol.consumer_protocol import assigned_partitions, subscribed_topics
from protocol.errors import ProtocolError
from protocol.records.section import Record

Value = dict[str, Any]

_TYPE = struct.Struct(">h")
_CONTROL_TYPES = {0: "abort", 1: "commit", 2: "leader change", 3: "snapshot header",
                  4: "snapshot footer", 5: "kraft version", 6: "voters"}  # fmt: skip


class Content(StrEnum):
    """The kind of records that a log contains."""

    BYTES = "bytes"
    OFFSETS = "offsets"
    TRANSACTIONS = "transactions"
    SHARE_STATES = "share-states"


_OF_TOPIC = {
    "__consumer_offsets": Content.OFFSETS,
    "__transaction_state": Content.TRANSACTIONS,
    "__share_group_state": Content.SHARE_STATES,
}
_RECORDS = {
    Content.TRANSACTIONS: {0: "TransactionLog"},
    Content.SHARE_STATES: {0: "ShareSnapshot", 1: "ShareUpdate"},
}
_RECORDS[Content.OFFSETS] = {
    record.record_type: name.removesuffix("Key")
    for name, record in log_records.BY_NAME.items()
    if name.endswith("Key")
    and not any(name == f"{each}Key" for kind in _RECORDS.values() for each in kind.values())
}
"""For each internal topic: the name of each record, by the type number in its key."""


def content_of(folder: str) -> Content:
    """Returns the kind of records in a partition's directory, judged by the directory name
    ``folder``."""
    return _OF_TOPIC.get(folder.rpartition("-")[0], Content.BYTES)


def fields_of(record: Record, content: Content, is_control: bool) -> Value:
    """Returns the decoded fields of a record in an internal topic; otherwise key, value and
    headers."""
    head: Value = {"offset": record.offset, "timestamp_ms": record.timestamp}
    if is_control:
        return {**head, "control": _marker(record.key)}
    if content != Content.BYTES and record.key is not None:
        try:
            return {**head, **_internal(record.key, record.value, content)}
        except (ProtocolError, struct.error) as error:
            head["undecoded"] = str(error)
    return {
        **head,
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [[_plain(name), _text(value)] for name, value in record.headers],
    }


def _marker(key: bytes | None) -> str:
    if key is None or len(key) < 4:
        return "unknown"
    return _CONTROL_TYPES.get(_TYPE.unpack_from(key, 2)[0], "unknown")


def _internal(key: bytes, value: bytes | None, content: Content) -> Value:
    (kind,) = _TYPE.unpack_from(key)
    name = _RECORDS[content].get(kind)
    if name is None:
        raise ProtocolError(f"unknown record type {kind}")
    # The key's type determines its format; only the value has a version.
    fields: Value = {"record": name, "key": _shown(log_records.decode(f"{name}Key", 0, key, 2))}
    if value is None:
        return {**fields, "value": None}
    (version,) = _TYPE.unpack_from(value)
    decoded = log_records.decode(f"{name}Value", version, value, 2)
    if name == "GroupMetadata":
        _open_members(decoded)
    return {**fields, "version": version, "value": _shown(decoded)}


def _open_members(group: Value) -> None:
    """Decodes the subscriptions and assignments of a group's members, in place."""
    if group["protocol_type"] != "consumer":
        return
    for member in group["members"]:
        for field, read in (
            ("subscription", subscribed_topics),
            ("assignment", assigned_partitions),
        ):
            try:
                member[field] = read(bytes(member[field])) if member[field] else None
            except ProtocolError:
                continue  # left as bytes


def _shown(value: Any) -> Any:
    """Returns the value with all bytes in it converted to text."""
    if isinstance(value, dict):
        return {
            name: _topic_id(each) if name == "topic_id" else _shown(each)
            for name, each in value.items()
        }
    if isinstance(value, list):
        return [_shown(each) for each in value]
    if isinstance(value, bytes | memoryview):
        return _text(bytes(value))
    return value


def _topic_id(value: bytes) -> str | None:
    """Returns a topic id in Kafka's spelling; None for the zero id."""
    return base64.urlsafe_b64encode(value).decode().rstrip("=") if any(value) else None


def _text(data: bytes | None) -> str | None:
    """Returns UTF-8 bytes as text, and any other bytes as ``hex:...``."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return f"hex:{data.hex()}"


def _plain(text: str) -> str:
    return text.encode(errors="surrogateescape").decode(errors="replace")
