"""Entries and filters of access control lists as the requests for them have them: as codes.

A code that is 0 makes Kafka's request unreadable, and the connection is closed; so it is here. Any
other that nobody knows is UNKNOWN: no entry, and a filter that takes none.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, TypeVar

from protocol.errors import ProtocolError
from security.acls.filters import AclFilter
from security.acls.model import (
    AclEntry,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)

Member = TypeVar("Member", bound=IntEnum)

NO_AUTHORIZER = "No Authorizer is configured."
"""Kafka's text beside SECURITY_DISABLED."""


def entry_of(value: Mapping[str, Any]) -> AclEntry:
    """The entry that CreateAcls asks for. Raises ProtocolError."""
    return AclEntry(
        Pattern(
            _known(ResourceType, value["resource_type"]),
            value["resource_name"],
            _known(PatternType, value["resource_pattern_type"]),
        ),
        value["principal"],
        value["host"],
        _known(Operation, value["operation"]),
        _known(Permission, value["permission_type"]),
    )


def filter_of(value: Mapping[str, Any]) -> AclFilter:
    """The filter of DescribeAcls, or one of DeleteAcls. Raises ProtocolError."""
    return AclFilter(
        _known(ResourceType, value["resource_type_filter"]),
        value["resource_name_filter"],
        _known(PatternType, value["pattern_type_filter"]),
        value["principal_filter"],
        value["host_filter"],
        _known(Operation, value["operation"]),
        _known(Permission, value["permission_type"]),
    )


def codes_of(entry: AclEntry) -> dict[str, Any]:
    """What an answer has of an entry besides its pattern."""
    return {
        "principal": entry.principal,
        "host": entry.host,
        "operation": int(entry.operation),
        "permission_type": int(entry.permission),
    }


def pattern_codes_of(pattern: Pattern) -> dict[str, Any]:
    """What an answer has of a pattern."""
    return {
        "resource_type": int(pattern.resource_type),
        "resource_name": pattern.name,
        "pattern_type": int(pattern.pattern_type),
    }


def _known(kind: type[Member], code: int) -> Member:
    if not code:
        raise ProtocolError(f"{kind.__name__} 0 (UNKNOWN) is not valid")
    try:
        return kind(code)
    except ValueError:
        return kind(0)
