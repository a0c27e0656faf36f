"""Who decides what clients may do; a broker without one lets everybody do everything.

Whoever asks says for which API it is, for the line of the audit log that a denial writes.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Protocol

from security.acls.model import Operation, ResourceType

if TYPE_CHECKING:
    from broker.net.connection import Connection
    from broker.net.permitted import PermittedMemory
    from security.acls.index import AclIndex


class Authorizer(Protocol):
    """See the module."""

    @property
    def epoch(self) -> int:
        """Moves whenever something that was decided may be decided otherwise."""

    @property
    def index(self) -> AclIndex:
        """The entries, whose epoch it is; always the same object."""

    @property
    def permitted(self) -> PermittedMemory:
        """What the guard remembers of what was allowed, for all connections together."""

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
        """Whether the peer of a connection may do something to a resource.

        ``count`` is how often the request names it; without ``is_logged`` a denial is no news: the
        API only looks whether it might.
        """

    def allows_somewhere(
        self, connection: Connection, operation: Operation, kind: ResourceType, *, api: str
    ) -> Generator[None, None, bool]:
        """Whether there may be any resource of this type to which the peer may do it; in steps."""

    def operations(self, connection: Connection, kind: ResourceType, name: str) -> int:
        """All that the peer may do to a resource, as bits (KIP-430); never logged."""
