"""A naive implementation of ACL decisions. Each decision reads all ACL entries."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from security.acls.model import (
    OPERATIONS,
    AclEntry,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

IMPLIED_BY = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}


def covers(entry: AclEntry, kind: ResourceType, name: str) -> bool:
    pattern = entry.pattern
    if pattern.resource_type != kind:
        return False
    if pattern.pattern_type == PatternType.PREFIXED:
        return name.startswith(pattern.name)
    return pattern.name in ("*", name)


def is_allowed(
    entries: Collection[AclEntry],
    super_users: Collection[str],
    allow_everyone: bool,
    principal: str,
    host: str,
    operation: Operation,
    kind: ResourceType,
    name: str,
) -> bool:
    if principal in super_users:
        return True
    covering = [entry for entry in entries if covers(entry, kind, name)]
    if not covering:
        return allow_everyone
    about_them = [
        entry
        for entry in covering
        if entry.principal in ("User:*", principal) and entry.host in ("*", host)
    ]
    named = (operation, Operation.ALL)
    if any(e.permission == Permission.DENY and e.operation in named for e in about_them):
        return False
    enough = (*named, *IMPLIED_BY.get(operation, ()))
    return any(e.permission == Permission.ALLOW and e.operation in enough for e in about_them)


OTHER = "~"
"""A resource name that no ACL entry contains. It represents all names that only prefixed entries
match."""


def names_worth_trying(entries: Collection[AclEntry]) -> Iterator[str]:
    """Yields the resource names that a test of ``entries`` must use. Any other name is matched by
    the same entries as one of these names."""
    yield OTHER
    for entry in entries:
        yield entry.pattern.name
        yield entry.pattern.name + OTHER


def may_somewhere(
    entries: Collection[AclEntry],
    super_users: Collection[str],
    allow_everyone: bool,
    principal: str,
    host: str,
    operation: Operation,
    kind: ResourceType,
) -> bool:
    about = super_users, allow_everyone, principal, host, operation, kind
    return any(is_allowed(entries, *about, name) for name in names_worth_trying(entries))


def operations(
    entries: Collection[AclEntry],
    super_users: Collection[str],
    allow_everyone: bool,
    principal: str,
    host: str,
    kind: ResourceType,
    name: str,
) -> int:
    found = 0
    for operation in OPERATIONS[kind]:
        about = super_users, allow_everyone, principal, host, operation, kind
        if is_allowed(entries, *about, name):
            found |= 2**operation
    return found
