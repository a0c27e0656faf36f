"""Converts ACL entries and filters between requests and the codes of Kafka's protocol.

Kafka can't parse a request with code 0, and closes the connection; Muster does the same. Every
other code that Kafka does not define becomes UNKNOWN, which is invalid in an entry and matches
nothing in a filter.
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
"""Kafka's error message for SECURITY_DISABLED in CreateAcls and DeleteAcls."""
NO_AUTHORIZER_ON_BROKER = "No Authorizer is configured on the broker."
"""Kafka's error message for SECURITY_DISABLED in DescribeAcls."""


def entry_of(value: Mapping[str, Any]) -> AclEntry:
    """Returns the ACL entry that a CreateAcls request adds. Raises ProtocolError."""
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
    """Returns a filter of a DescribeAcls or DeleteAcls request. Raises ProtocolError."""
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
    """Returns the response fields of an ACL entry, without the fields of its resource pattern."""
    return {
        "principal": entry.principal,
        "host": entry.host,
        "operation": int(entry.operation),
        "permission_type": int(entry.permission),
    }


def pattern_codes_of(pattern: Pattern) -> dict[str, Any]:
    """Returns the response fields of a resource pattern."""
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
