"""ACL entries as text: as Kafka's JSON, which ZooKeeper and Muster's own file contain, and as
sentences.

Source: Kafka 3.9 ``ZkData`` and ``AclEntry``. The names of operations are accepted in upper or
lower case.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from functools import lru_cache
from typing import Any, TypeVar

from security.acls.acl_decision import Rule
from security.acls.model import (
    AclEntry,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
    spelled,
)

Member = TypeVar("Member", bound=IntEnum)

VERSION = 1
"""The version in the JSON of a node with entries."""


def member_of(kind: type[Member], text: str) -> Member:
    """Returns the enum member with this name, in upper or lower case, with or without ``_`` and
    ``-``. Raises ValueError with a message for users if the name is unknown."""
    found: Member | None = _member_of(kind, text)
    if found is not None:
        return found
    choices = ", ".join(spelled(member) for member in kind if member)
    raise ValueError(f"{text!r} is unknown: use one of {choices}")


@lru_cache(1024)
def _member_of(kind: type[Member], text: str) -> Member | None:
    wanted = _plain(text)
    return next((each for each in kind if each and _plain(each.name) == wanted), None)


def _plain(text: str) -> str:
    return text.replace("_", "").replace("-", "").upper()


def json_of(entry: AclEntry) -> dict[str, str]:
    """Returns the JSON of an entry, as the node of its pattern contains it."""
    return {
        "principal": entry.principal,
        "permissionType": spelled(entry.permission),
        "operation": spelled(entry.operation),
        "host": entry.host,
    }


def entry_of(pattern: Pattern, value: Mapping[str, Any]) -> AclEntry:
    """Returns the entry of a pattern from JSON that ``json_of`` or Kafka wrote. Raises ValueError
    for other JSON."""
    try:
        principal, host = value["principal"], value["host"]
        permission = member_of(Permission, value["permissionType"])
        operation = member_of(Operation, value["operation"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"an ACL of {pattern.name!r} lacks {error}") from None
    if not (isinstance(principal, str) and isinstance(host, str)):
        raise ValueError(f"an ACL of {pattern.name!r} has a principal or host that is not a string")
    return AclEntry(pattern, principal, host, operation, permission)


def sentence(rule: AclEntry | Rule) -> str:
    """Returns a sentence about the entry or rule that made a decision."""
    if isinstance(rule, Rule):
        return rule.value
    kind, name, pattern_type = rule.pattern
    covered = f"{spelled(kind)} {name}"
    if pattern_type == PatternType.PREFIXED:
        covered = f"each {spelled(kind)} whose name begins with {name}"
    what = "everything" if rule.operation == Operation.ALL else spelled(rule.operation)
    verb = "allows" if rule.permission == Permission.ALLOW else "denies"
    return f"an ACL {verb} {rule.principal} from {rule.host} {what} on {covered}"


def type_of(text: str) -> ResourceType:
    """Returns the resource type with this name. Raises ValueError with a message for users if the
    name is unknown."""
    return member_of(ResourceType, text)
