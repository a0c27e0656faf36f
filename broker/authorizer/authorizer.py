"""The authorizer decides which operations clients may perform; by default it allows all of them.

Callers pass the name of their API, which the audit log's line about a denial contains.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Final, Protocol

from broker.net.authorization_cache import AuthorizationCacheMemory
from security.acls.model import OPERATIONS, Operation, ResourceType

if TYPE_CHECKING:
    from broker.net.connection import Connection


class Authorizer(Protocol):
    """Decides whether the peer of a connection may perform an operation on a resource."""

    @property
    def judges(self) -> bool:
        """Returns False if the authorizer allows everything, so that hot paths can skip the
        check."""

    @property
    def epoch(self) -> int:
        """Returns a number that changes whenever earlier decisions of the authorizer may no longer
        be valid."""

    @property
    def authorization_cache(self) -> AuthorizationCacheMemory:
        """Returns the cache of allowed names that all connections share."""

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
        """Returns True if the peer of a connection may perform an operation on a resource.

        ``count`` is the number of times that the request names the resource. If ``is_logged`` is
        False, a denial is not logged, because the API only filters its response.
        """

    def allows_somewhere(
        self, connection: Connection, operation: Operation, kind: ResourceType, *, api: str
    ) -> Generator[None, None, bool]:
        """Returns True if the peer may perform an operation on any resource of a type; runs in
        slices."""

    def operations(self, connection: Connection, kind: ResourceType, name: str) -> int:
        """Returns all operations that the peer may perform on a resource, as bits (KIP-430). Logs
        nothing."""


class AllowsAll:
    """The authorizer of a broker without a configured authorizer: every principal may do
    everything."""

    __slots__ = ("authorization_cache",)

    judges: Final = False
    epoch: Final = 0

    def __init__(self) -> None:
        self.authorization_cache = AuthorizationCacheMemory()

    def allows(
        self,
        connection: Connection,  # noqa: ARG002
        operation: Operation,  # noqa: ARG002
        kind: ResourceType,  # noqa: ARG002
        name: str,  # noqa: ARG002
        *,
        api: str,  # noqa: ARG002
        count: int = 1,  # noqa: ARG002
        is_logged: bool = True,  # noqa: ARG002
    ) -> bool:
        """Implements `Authorizer.allows`."""
        return True

    def allows_somewhere(
        self,
        connection: Connection,  # noqa: ARG002
        operation: Operation,  # noqa: ARG002
        kind: ResourceType,  # noqa: ARG002
        *,
        api: str,  # noqa: ARG002
    ) -> Generator[None, None, bool]:
        """Implements `Authorizer.allows_somewhere`."""
        yield from ()
        return True

    def operations(self, connection: Connection, kind: ResourceType, name: str) -> int:  # noqa: ARG002
        """Implements `Authorizer.operations`."""
        return _EVERYTHING[kind]


_EVERYTHING: Final = {
    kind: sum(1 << operation for operation in operations) for kind, operations in OPERATIONS.items()
}
"""All operations on each resource type, as bits."""
