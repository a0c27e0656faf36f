"""Changes of ACLs by clients: applies them to the ACL store, and records them in the audit log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from broker.authorizer.acl_store import AclStore
from broker.authorizer.audit import Audit
from security.acls.index import AclIndex
from security.acls.model import AclEntry
from security.acls.text import sentence

if TYPE_CHECKING:
    from broker.net.connection import Connection

AUDITED_MAX = 20
"""The maximum number of ACLs of one request that its audit line names. The line has the number of
all ACLs."""


class AclChanges:
    """Applies changes of ACLs by clients, and logs them in the audit log."""

    def __init__(self, store: AclStore, audit: Audit) -> None:
        self._store = store
        self._audit = audit

    @property
    def index(self) -> AclIndex:
        return self._store.index

    async def add(
        self, connection: Connection, entries: Sequence[AclEntry]
    ) -> Mapping[AclEntry, str]:
        """Adds ACLs; returns the reason for each ACL that was not added."""
        failed = await self._store.change(entries, ())
        self._audit_changes(connection, "ACLs added", entries, failed)
        return failed

    async def remove(
        self, connection: Connection, entries: Sequence[AclEntry]
    ) -> Mapping[AclEntry, str]:
        """Removes ACLs; returns the reason for each ACL that was not removed."""
        failed = await self._store.change((), entries)
        self._audit_changes(connection, "ACLs removed", entries, failed)
        return failed

    def _audit_changes(
        self,
        connection: Connection,
        what: str,
        entries: Sequence[AclEntry],
        failed: Mapping[AclEntry, str],
    ) -> None:
        changed = [each for each in entries if each not in failed] if failed else entries
        if changed:
            text = "; ".join(map(sentence, changed[:AUDITED_MAX]))
            self._audit.changed(connection, what, count=len(changed), entries=text)
