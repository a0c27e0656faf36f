"""Filters that select the ACL entries which DescribeAcls returns and DeleteAcls removes. Source:
Kafka 3.9 ``AclBindingFilter``, ``ResourcePatternFilter``."""

from __future__ import annotations

from typing import NamedTuple

from security.acls.model import (
    ANYTHING,
    AclEntry,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)


class AclFilter(NamedTuple):
    """The values that the fields of an entry must have. None or ANY matches every value."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    """With ANY the filter matches entries whose pattern has exactly the name ``name``, literal or
    prefixed. With MATCH it matches entries whose pattern matches a resource of that name."""
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def takes(self, entry: AclEntry) -> bool:
        """Returns True if the filter matches an entry."""
        return (
            self.takes_pattern(entry.pattern)
            and self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (Operation.ANY, entry.operation)
            and self.permission in (Permission.ANY, entry.permission)
        )

    def takes_pattern(self, pattern: Pattern) -> bool:
        """Returns True if the filter may match entries of a pattern."""
        if self.resource_type not in (ResourceType.ANY, pattern.resource_type):
            return False
        kind = self.pattern_type
        if kind in (PatternType.LITERAL, PatternType.PREFIXED) and kind != pattern.pattern_type:
            return False
        if self.name is None or self.name == pattern.name:
            return True
        if kind != PatternType.MATCH:
            return False
        if pattern.pattern_type == PatternType.PREFIXED:
            return self.name.startswith(pattern.name)
        return pattern.name == ANYTHING

    @property
    def wrong(self) -> str | None:
        """Returns Kafka's message for an invalid filter; None for a valid filter."""
        if not (self.resource_type and self.pattern_type):
            return "Unknown patternFilter."
        return None if self.operation and self.permission else "Unknown entryFilter."
