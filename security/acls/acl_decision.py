"""Decides with ACLs whether a principal on a host may perform an operation on a resource.

The first rule that applies decides:

1. A super user may perform all operations.
2. An entry that denies the operation or ALL denies it.
3. An entry that allows the operation, ALL, or an operation that implies it, allows it.
4. If no entry exists for the resource, ``allow.everyone.if.no.acl.found`` decides.
5. All other operations are denied.

Source: Kafka 3.9 ``StandardAuthorizerData``; `may_somewhere` is
``Authorizer.authorizeByResourceType``.
"""

from __future__ import annotations

from collections.abc import Container, Generator
from enum import Enum
from typing import NamedTuple

from security.acls.index import AT_A_TIME, AclIndex, denies, is_about
from security.acls.model import (
    ANYTHING,
    GRANTS,
    OPERATIONS,
    AclEntry,
    Operation,
    Pattern,
    PatternType,
    ResourceType,
)
from security.principal import EVERYBODY


class Rule(Enum):
    """The reason for a decision that does not follow from an ACL entry."""

    SUPER_USER = "super.users names the principal"
    NO_ACL_ALLOWS = "no ACL matches, and allow.everyone.if.no.acl.found is true"
    NO_ACL_DENIES = "no ACL matches"
    NOTHING_ALLOWS = "no matching ACL allows the operation"


class Decision(NamedTuple):
    """An authorization decision, and the ACL entry or the rule that made it."""

    is_allowed: bool
    rule: AclEntry | Rule


_SUPER_USER = Decision(True, Rule.SUPER_USER)
_NO_ACL_ALLOWS = Decision(True, Rule.NO_ACL_ALLOWS)
_NO_ACL_DENIES = Decision(False, Rule.NO_ACL_DENIES)
_NOTHING_ALLOWS = Decision(False, Rule.NOTHING_ALLOWS)
_A_NAME = "hardcode"
"""An arbitrary name for a resource that no ACL names. Kafka uses the same name."""


class AclRules:
    """Decides with an index of ACL entries, according to the rules in the module's docstring."""

    def __init__(
        self, index: AclIndex, super_users: Container[str] = (), *, allow_everyone: bool = False
    ) -> None:
        self.index = index
        self._super_users = super_users
        self._without_acl = _NO_ACL_ALLOWS if allow_everyone else _NO_ACL_DENIES

    def verdict(
        self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> Decision:
        """Returns the decision for an operation on a resource. ``principal`` is ``Type:name``,
        ``host`` is an address without a slash."""
        if principal in self._super_users:
            return _SUPER_USER
        return self._verdict(principal, host, operation, self.index.covering(kind, name))

    def _verdict(
        self, principal: str, host: str, operation: Operation, patterns: list[Pattern]
    ) -> Decision:
        """Returns the decision by the entries of ``patterns``, which must be all patterns that
        match the resource."""
        if not patterns:
            return self._without_acl
        allowed_by = None
        grants = GRANTS.get(operation)
        for pattern in patterns:
            for who in (principal, EVERYBODY):
                for entry in self.index.entries_of(pattern, who):
                    if is_about(entry, host, operation):
                        if denies(entry):
                            return Decision(False, entry)
                        allowed_by = allowed_by or entry
                    elif (
                        grants is not None
                        and entry.operation in grants
                        and entry.host in (ANYTHING, host)
                        and not denies(entry)
                    ):
                        allowed_by = allowed_by or entry
        return _NOTHING_ALLOWS if allowed_by is None else Decision(True, allowed_by)

    def may_somewhere(
        self, principal: str, host: str, operation: Operation, kind: ResourceType
    ) -> Generator[None, None, bool]:
        """Returns True if the operation is allowed on at least one possible resource of a type,
        whether the resource exists or not.

        An allow entry has no effect if a deny entry covers all resources of the allow entry: the
        deny entry has the same name, or a prefix of the name. The generator yields between parts of
        the work, because 20,000 allow and 20,000 deny entries take 40 ms.
        """
        if self.verdict(principal, host, operation, kind, _A_NAME).is_allowed:
            return True
        allowed: list[Pattern] = []
        denied: set[Pattern] = set()
        for who in (principal, EVERYBODY):
            for number, entry in enumerate(list(self.index.entries_for(kind, who, operation))):
                if number % AT_A_TIME == 0:
                    yield
                if not is_about(entry, host, operation):
                    continue
                if not denies(entry):
                    allowed.append(entry.pattern)
                elif entry.pattern == Pattern(kind, ANYTHING):
                    return False
                else:
                    denied.add(entry.pattern)
        for pattern in allowed:
            yield  # for a long name, 249 prefixes are looked up
            if not _is_dominated(pattern, denied):
                return True
        return False

    def operations(self, principal: str, host: str, kind: ResourceType, name: str) -> int:
        """Returns the operations that are allowed on a resource, as bits (KIP-430)."""
        operations = OPERATIONS[kind]
        if principal in self._super_users:
            return sum(1 << operation for operation in operations)
        patterns = self.index.covering(kind, name)
        return sum(
            1 << operation
            for operation in operations
            if self._verdict(principal, host, operation, patterns).is_allowed
        )


def _is_dominated(pattern: Pattern, denied: set[Pattern]) -> bool:
    """Returns True if a pattern in ``denied`` matches all resources that ``pattern`` matches."""
    if not denied:
        return False
    kind, name, pattern_type = pattern
    if pattern_type == PatternType.LITERAL and name == ANYTHING:
        return False
    return pattern in denied or any(
        Pattern(kind, name[:length], PatternType.PREFIXED) in denied
        for length in range(1, len(name) + 1)
    )
