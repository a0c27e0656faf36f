"""The authorizer that judges by access control entries, as Kafka's StandardAuthorizer does.

What was decided for a connection is kept with it, denials too, until an entry is added or removed
or its principal is another. So a request costs a look into a dict for each resource, however many
entries there are.
"""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING, Any

from broker.net.permitted import NAME_KEPT_MAX
from broker.rights.audit import Audit
from security.acls.index import AclIndex
from security.acls.judge import Judge, Rule, Verdict
from security.acls.model import Operation, ResourceType

if TYPE_CHECKING:
    from broker.net.connection import Connection

KEPT_MAX = 10_000
"""Verdicts that are kept with a connection; beyond them it begins anew."""


class _Kept:
    """What was decided for one connection while the entries were those of ``epoch``."""

    __slots__ = ("bits", "epoch", "host", "name", "principal", "verdicts")

    def __init__(self, connection: Connection, epoch: int) -> None:
        self.epoch = epoch
        self.principal = connection.principal
        self.name = str(connection.principal)
        self.host = connection.client_host.removeprefix("/")
        self.verdicts: dict[tuple[Operation, ResourceType, str], Verdict] = {}
        self.bits: dict[tuple[ResourceType, str], int] = {}
        """All that may be done to a resource."""


class JudgingAuthorizer:
    """See Authorizer, and the module."""

    def __init__(
        self, index: AclIndex, super_users: Set[str], *, allow_everyone: bool, audit: Audit
    ) -> None:
        self.index = index
        self.audit = audit
        self._judge = Judge(index, super_users, allow_everyone=allow_everyone)
        self._somewhere: dict[tuple[str, str, Operation, ResourceType], bool] = {}
        """Whether a principal from a host may do something to any resource of a type; for all
        connections, since many entries have to be looked at."""
        self._somewhere_epoch = index.epoch

    @property
    def epoch(self) -> int:
        """See Authorizer."""
        return self.index.epoch

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
        """See Authorizer."""
        kept = self._kept(connection)
        verdict = kept.verdicts.get((operation, kind, name))
        if verdict is None:
            verdict = self._judge.verdict(kept.name, kept.host, operation, kind, name)
            _keep(kept.verdicts, (operation, kind, name), verdict)
        if not verdict.is_allowed and is_logged:
            self.audit.denied(
                connection, operation, kind, name, api=api, count=count, rule=verdict.rule
            )
        return verdict.is_allowed

    def allows_somewhere(
        self, connection: Connection, operation: Operation, kind: ResourceType, *, api: str
    ) -> bool:
        """See Authorizer."""
        kept = self._kept(connection)
        if self._somewhere_epoch != self.index.epoch or len(self._somewhere) >= KEPT_MAX:
            self._somewhere_epoch = self.index.epoch
            self._somewhere.clear()
        key = kept.name, kept.host, operation, kind
        allowed = self._somewhere.get(key)
        if allowed is None:
            allowed = self._judge.may_somewhere(*key)
            self._somewhere[key] = allowed
        if not allowed:
            rule = Rule.NOTHING_ALLOWS
            self.audit.denied(connection, operation, kind, "", api=api, count=1, rule=rule)
        return allowed

    def operations(self, connection: Connection, kind: ResourceType, name: str) -> int:
        """See Authorizer."""
        kept = self._kept(connection)
        bits = kept.bits.get((kind, name))
        if bits is None:
            bits = self._judge.operations(kept.name, kept.host, kind, name)
            _keep(kept.bits, (kind, name), bits)
        return bits

    def _kept(self, connection: Connection) -> _Kept:
        kept = connection.verdicts
        if (
            type(kept) is _Kept
            and kept.epoch == self.index.epoch
            and kept.principal is connection.principal
        ):
            return kept
        kept = connection.verdicts = _Kept(connection, self.index.epoch)
        return kept


def _keep(kept: dict[Any, Any], key: tuple[Any, ...], decided: object) -> None:
    """``key`` ends with the name of the resource."""
    if len(key[-1]) <= NAME_KEPT_MAX:
        if len(kept) >= KEPT_MAX:
            kept.clear()
        kept[key] = decided
