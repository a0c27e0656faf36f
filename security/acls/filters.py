"""Filters: which entries DescribeAcls shows and DeleteAcls removes.

Source: Kafka 3.9 ``AclBindingFilter``, ``ResourcePatternFilter``.
"""

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
    """What an entry has to be like. None, and ANY, stand for whatever there is."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    """ANY: entries of exactly ``name``, of either kind. MATCH: entries whose pattern covers it."""
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def takes(self, entry: AclEntry) -> bool:
        """Whether an entry is one of those that are looked for."""
        return (
            self.takes_pattern(entry.pattern)
            and self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (Operation.ANY, entry.operation)
            and self.permission in (Permission.ANY, entry.permission)
        )

    def takes_pattern(self, pattern: Pattern) -> bool:
        """Whether the entries of a pattern may be among them."""
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
        """Why nothing can be looked for by it, in Kafka's words; None where that can be done."""
        if not (self.resource_type and self.pattern_type):
            return "Unknown patternFilter."
        return None if self.operation and self.permission else "Unknown entryFilter."
