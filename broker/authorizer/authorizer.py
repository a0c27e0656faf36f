"""The interface of authorizers, which decide what clients may do, and the default authorizer, which
allows everything.

Callers pass the name of the API. If an authorizer denies an operation, the line in the audit log
contains this name.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Final, Protocol

from broker.net.authorization_cache import AuthorizationCacheMemory
from security.acls.model import OPERATIONS, Operation, ResourceType

if TYPE_CHECKING:
    from broker.net.connection import Connection


class Authorizer(Protocol):
    """Decides whether the client of a connection may perform an operation on a resource."""

    @property
    def judges(self) -> bool:
        """False if the authorizer allows everything, so that hot paths can skip the check."""

    @property
    def epoch(self) -> int:
        """A number that changes whenever earlier decisions may no longer be valid, for example when
        an ACL changes."""

    @property
    def authorization_cache(self) -> AuthorizationCacheMemory:
        """The memory for the names that connections cache as allowed; all connections share it."""

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
        """Returns True if the client may perform an operation on a resource.

        ``count`` is the number of times that the request names the resource. If ``is_logged`` is
        False, a denial is not logged, because the API only omits the resource from its response.
        """

    def allows_somewhere(
        self, connection: Connection, operation: Operation, kind: ResourceType, *, api: str
    ) -> Generator[None, None, bool]:
        """Returns True if the client may perform an operation on at least one resource of a type.
        The work is done in steps."""

    def operations(self, connection: Connection, kind: ResourceType, name: str) -> int:
        """Returns the operations that the client may perform on a resource, as bits (KIP-430). Logs
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
        return True

    def allows_somewhere(
        self,
        connection: Connection,  # noqa: ARG002
        operation: Operation,  # noqa: ARG002
        kind: ResourceType,  # noqa: ARG002
        *,
        api: str,  # noqa: ARG002
    ) -> Generator[None, None, bool]:
        yield from ()
        return True

    def operations(self, connection: Connection, kind: ResourceType, name: str) -> int:  # noqa: ARG002
        return _EVERYTHING[kind]


_EVERYTHING: Final = {
    kind: sum(1 << operation for operation in operations) for kind, operations in OPERATIONS.items()
}
"""All operations on each resource type, as bits."""
