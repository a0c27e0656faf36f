"""An authorizer that keeps its ACLs in memory and uses the client id of a connection as the user
name."""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

from broker.net.authorization_cache import AuthorizationCacheMemory
from broker.net.connection import Connection
from security.acls.acl_decision import AclRules
from security.acls.index import AclIndex
from security.acls.model import (
    ANYTHING,
    CLUSTER_NAME,
    AclEntry,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)

HOST = "127.0.0.1"
ADMIN = "admin"


class Check(NamedTuple):
    """An authorization check by a request handler, and its result."""

    user: str
    operation: Operation
    kind: ResourceType
    name: str
    count: int
    is_logged: bool
    is_allowed: bool


class Rules:
    """An authorizer for tests. The user ``admin`` is a super user."""

    judges = True

    def __init__(self, *rules: str, allow_everyone: bool = False) -> None:
        self.index = AclIndex()
        self.acl_rules = AclRules(self.index, {f"User:{ADMIN}"}, allow_everyone=allow_everyone)
        self.authorization_cache = AuthorizationCacheMemory()
        self.asked: list[Check] = []
        """All authorization checks of handlers so far, in order."""
        for rule in rules:
            self.add(rule)

    def add(self, rule: str) -> None:
        """Adds an ACL such as ``alice: READ TOPIC orders``. ``deny`` before the operation makes it
        a deny entry. ``*`` after the name makes the name a prefix."""
        user, _, right = rule.partition(": ")
        words = right.split(" ")
        permission = Permission.ALLOW
        if words[0] == "deny":
            permission = Permission.DENY
            del words[0]
        name = words[2] if len(words) > 2 else CLUSTER_NAME
        pattern_type = PatternType.LITERAL
        if len(name) > 1 and name.endswith("*"):
            name, pattern_type = name[:-1], PatternType.PREFIXED
        self.add_entry(
            AclEntry(
                Pattern(ResourceType[words[1]], name, pattern_type),
                f"User:{user}",
                ANYTHING,
                Operation[words[0]],
                permission,
            )
        )

    def add_entry(self, entry: AclEntry) -> None:
        self.index.add(entry)

    @property
    def epoch(self) -> int:
        return self.index.epoch

    def remove_all_of(self, user: str) -> None:
        for entry in [each for each in self.index if each.principal == f"User:{user}"]:
            self.index.remove(entry)

    @property
    def denials(self) -> list[Check]:
        """Returns the denied checks that the audit log would contain."""
        return [each for each in self.asked if not each.is_allowed and each.is_logged]

    # -- methods that handlers call

    def allows(
        self,
        connection: Connection,
        operation: Operation,
        kind: ResourceType,
        name: str,
        *,
        api: str,
        count: int = 1,
        is_logged: bool = True,
    ) -> bool:
        user = connection.client_id
        allowed = self.acl_rules.verdict(f"User:{user}", HOST, operation, kind, name).is_allowed
        self.asked.append(Check(user, operation, kind, name, count, is_logged, allowed))
        return allowed

    def allows_somewhere(
        self, connection: Connection, operation: Operation, kind: ResourceType, *, api: str
    ) -> Generator[None, None, bool]:
        return self.acl_rules.may_somewhere(f"User:{connection.client_id}", HOST, operation, kind)

    def operations(self, connection: Connection, kind: ResourceType, name: str) -> int:
        return self.acl_rules.operations(f"User:{connection.client_id}", HOST, kind, name)
