"""Fake connections and ACL entries for the tests of the authorizer."""

from __future__ import annotations

from typing import Any

from security.acls.model import AclEntry, Operation, Pattern, PatternType, Permission, ResourceType
from security.principal import Principal, parse_principal


class Peer:
    """A fake connection with the attributes that an authorizer reads."""

    def __init__(self, principal: str = "User:alice", host: str = "/127.0.0.1") -> None:
        self.principal: Principal = parse_principal(principal)
        self.client_host = host
        self.client_id = "billing"
        self.verdicts: object | None = None


def peer(principal: str = "User:alice", host: str = "/127.0.0.1") -> Any:
    """Returns a Peer, typed as Any so that it can be passed as a connection."""
    return Peer(principal, host)


def allow(
    name: str,
    operation: Operation = Operation.READ,
    principal: str = "User:alice",
    *,
    kind: ResourceType = ResourceType.TOPIC,
    pattern: PatternType = PatternType.LITERAL,
    permission: Permission = Permission.ALLOW,
) -> AclEntry:
    """Returns an ACL for any host. By default it allows READ on a literal topic."""
    return AclEntry(Pattern(kind, name, pattern), principal, "*", operation, permission)
