"""The parts of an ACL entry, with Kafka's codes and names.

An entry allows or denies one operation to one principal from one host, on the resources that its
pattern matches. Source: Kafka 3.9 ``org.apache.kafka.common.acl`` and ``.resource``.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

ANYTHING: Final = "*"
"""The wildcard. As the name of a literal pattern it matches every resource of the type. As a host
it matches every host."""
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""


class ResourceType(IntEnum):
    """The type of a resource."""

    # Enum's own hash is four times as slow, and resource types are keys of cached decisions
    __hash__ = int.__hash__

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How a pattern matches names. ANY and MATCH are used only in filters."""

    __hash__ = int.__hash__

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """An operation. ALL is used only in entries, ANY only in filters."""

    __hash__ = int.__hash__

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class Permission(IntEnum):
    """Allow or deny. ANY is used only in filters."""

    __hash__ = int.__hash__

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class Resource(NamedTuple):
    """One resource, by its type and name."""

    type: ResourceType
    name: str

    def __str__(self) -> str:
        return f"{spelled(self.type)} {self.name}"


class Pattern(NamedTuple):
    """The resources to which an entry applies."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL


class AclEntry(NamedTuple):
    """One entry. ``host`` is an IP address in Java's format without a slash, or `ANYTHING`."""

    pattern: Pattern
    principal: str
    host: str
    operation: Operation
    permission: Permission


OPERATIONS: Final = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""The operations that exist for each type of resource. KIP-430 returns them as bits."""

GRANTS: Final = {
    Operation.DESCRIBE: frozenset(
        {Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}),
}
"""For each operation, the operations that imply it: an allow entry for one of them also allows the
operation in the key. Deny entries do not use this table."""


# The lookup of an enum member takes longer than the other parts of a check, and there may be
# 100,000 entries.
_OF_NOTHING: Final = frozenset({ResourceType.UNKNOWN, ResourceType.ANY})
_CLUSTER: Final = ResourceType.CLUSTER
_PATTERNS_KEPT: Final = frozenset({PatternType.LITERAL, PatternType.PREFIXED})
_NO_OPERATIONS: Final = frozenset({Operation.UNKNOWN, Operation.ANY})
_PERMISSIONS_KEPT: Final = frozenset({Permission.ALLOW, Permission.DENY})


def spelled(member: IntEnum) -> str:
    """Returns the spelling in Kafka's JSON and tools: ``TransactionalId``, ``DescribeConfigs``."""
    return "".join(word.capitalize() for word in member.name.split("_"))


def wrong_with(entry: AclEntry) -> str | None:
    """Returns Kafka's message for an entry that can't be stored; None for a valid entry.

    Source: Kafka ``AclApis``, ``AclControlManager`` and the responses of 4.3.1. Kafka accepts any
    host, and a principal without a name, although no client ever matches such an entry.
    """
    pattern, principal, _, operation, permission = entry
    resource_type, name, pattern_type = pattern
    if resource_type in _OF_NOTHING:
        return f"Invalid resourceType {resource_type.name}"
    if pattern_type not in _PATTERNS_KEPT:
        return f"Invalid patternType {pattern_type.name}"
    if operation in _NO_OPERATIONS:
        return f"Invalid operation {operation.name}"
    if permission not in _PERMISSIONS_KEPT:
        return f"Invalid permissionType {permission.name}"
    if not name:
        return "Invalid empty resource name"
    if resource_type == _CLUSTER and name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if ":" not in principal:
        return (
            f"Could not parse principal from `{principal}` (no colon is present separating"
            " the principal type from the principal name)"
        )
    return None
