"""Builds a request of every supported API and version, with one element in each array."""

from __future__ import annotations

from typing import Any

from broker.apis.tables.standalone import SERVED
from protocol.schema import (
    BYTES,
    RECORDS,
    STRING,
    UUID,
    Api,
    Array,
    Field,
    Struct,
    Type,
    version_range,
)

EVERY = [
    (row.api, version)
    for row in SERVED.values()
    for version in range(row.min_version, row.max_version + 1)
]
BROKERS_ALONE = {
    "AllocateProducerIds",
    "AlterPartition",
    "ControlledShutdown",
    "DeleteShareGroupState",
    "InitializeShareGroupState",
    "LeaderAndIsr",
    "ReadShareGroupState",
    "ReadShareGroupStateSummary",
    "StopReplica",
    "UpdateMetadata",
    "WriteShareGroupState",
}
"""APIs that brokers use among each other, and clients never use."""
ORDERS_ID = bytes(range(16))
# The values of fields with these names; other numbers are 0.
PLAIN = {"acks": 1, "session_epoch": -1, "resource_type": 2, "key_type": 0, "replica_id": -1}


def asked(api: Api, version: int) -> dict[str, Any]:
    """Returns a request with one element in each array and the name ``orders`` in each string."""
    return {
        field.name: _value(field.name, field.type, version)
        for field in api.request
        if version in version_range(field.versions) and field.tag is None
    }


def _value(name: str, type_: Type, version: int) -> Any:
    if isinstance(type_, Array):
        return [_value(name, type_.element, version)]
    if isinstance(type_, Struct):
        fields: list[Field] = [
            each
            for each in type_.fields
            if version in version_range(each.versions) and each.tag is None
        ]
        return {field.name: _value(field.name, field.type, version) for field in fields}
    if name in PLAIN:
        return PLAIN[name]
    if type_ is STRING:
        return "orders"
    if type_ is UUID:
        return ORDERS_ID
    return b"" if type_ in (BYTES, RECORDS) else 0
