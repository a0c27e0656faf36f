"""The authorizer that decides by ACLs, as Kafka's StandardAuthorizer does.

Decisions, including denials, are cached until an ACL is added or removed. A cached decision costs
one dict lookup, however many ACLs exist. All connections share one cache of limited size.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Set
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from broker.authorizer.audit import Audit
from broker.net.authorization_cache import NAME_KEPT_MAX, AuthorizationCacheMemory
from security.acls.acl_decision import AclRules, Decision, Rule
from security.acls.index import AclIndex
from security.acls.model import Operation, ResourceType

if TYPE_CHECKING:
    from broker.net.connection import Connection

KEPT_MAX = 10_000
"""The number of new decisions after which older decisions are dropped from a cache."""


class _Who:
    """A connection's principal and address in the form that ACLs use."""

    __slots__ = ("host", "name", "principal")

    def __init__(self, connection: Connection) -> None:
        self.principal = connection.principal
        self.name = str(connection.principal)
        self.host = connection.client_host.removeprefix("/")


Decided = TypeVar("Decided")


class Recent(Generic[Decided]):
    """A cache of at most 2 * `KEPT_MAX` authorization decisions, which always has the last
    `KEPT_MAX` of them.

    A key is a tuple whose last element is the name of the resource. Decisions about long names are
    not cached.
    """

    __slots__ = ("_before", "_now")

    def __init__(self) -> None:
        self._now: dict[tuple[Any, ...], Decided] = {}
        self._before: dict[tuple[Any, ...], Decided] = {}

    def __len__(self) -> int:
        return len(self._now) + len(self._before)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return chain(self._now, self._before)

    def get(self, key: tuple[Any, ...]) -> Decided | None:
        found = self._now.get(key)
        if found is None:
            found = self._before.get(key)
            if found is not None:
                self.keep(key, found)
        return found

    def keep(self, key: tuple[Any, ...], decided: Decided) -> None:
        if len(key[-1]) <= NAME_KEPT_MAX:
            if len(self._now) >= KEPT_MAX:
                self._now, self._before = {}, self._now
            self._now[key] = decided

    def clear(self) -> None:
        self._now, self._before = {}, {}


class AclAuthorizer:
    """Implements `Authorizer` with ACLs."""

    judges: Final = True

    def __init__(
        self, index: AclIndex, super_users: Set[str], *, allow_everyone: bool, audit: Audit
    ) -> None:
        self.index = index
        self.audit = audit
        self._acl_rules = AclRules(index, super_users, allow_everyone=allow_everyone)
        self.authorization_cache = AuthorizationCacheMemory()
        self.verdicts: Recent[Decision] = Recent()
        """The cached decisions by principal, host, operation, resource type and name."""
        self.bits: Recent[int] = Recent()
        """The cached sets of allowed operations, as bits, by principal, host, resource type and
        name."""
        self._somewhere: Recent[bool] = Recent()
        """The cached results of `allows_somewhere`, by operation, resource type, principal and
        host."""
        self._epoch = index.epoch
        """The epoch of the ACLs on which the cached decisions are based."""

    @property
    def epoch(self) -> int:
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
        who = self._who(connection)
        key = who.name, who.host, operation, kind, name
        verdict = self.verdicts.get(key)
        if verdict is None:
            verdict = self._acl_rules.verdict(*key)
            self.verdicts.keep(key, verdict)
        if not verdict.is_allowed and is_logged:
            self.audit.denied(
                connection, operation, kind, name, api=api, count=count, rule=verdict.rule
            )
        return verdict.is_allowed

    def allows_somewhere(
        self, connection: Connection, operation: Operation, kind: ResourceType, *, api: str
    ) -> Generator[None, None, bool]:
        who = self._who(connection)
        key = operation, kind, who.host, who.name
        allowed = self._somewhere.get(key)
        if allowed is None:
            epoch = self.index.epoch
            allowed = yield from self._acl_rules.may_somewhere(who.name, who.host, operation, kind)
            if epoch == self._epoch == self.index.epoch:
                self._somewhere.keep(key, allowed)
        if not allowed:
            rule = Rule.NOTHING_ALLOWS
            self.audit.denied(connection, operation, kind, "", api=api, count=1, rule=rule)
        return allowed

    def operations(self, connection: Connection, kind: ResourceType, name: str) -> int:
        who = self._who(connection)
        key = who.name, who.host, kind, name
        bits = self.bits.get(key)
        if bits is None:
            bits = self._acl_rules.operations(*key)
            self.bits.keep(key, bits)
        return bits

    def _who(self, connection: Connection) -> _Who:
        """Returns the principal and host of a connection. If the ACLs have changed, clears the
        caches first."""
        if self._epoch != self.index.epoch:
            self._epoch = self.index.epoch
            for decided in (self.verdicts, self.bits, self._somewhere):
                decided.clear()
        who = connection.verdicts
        if type(who) is not _Who or who.principal is not connection.principal:
            who = connection.verdicts = _Who(connection)
        return who
