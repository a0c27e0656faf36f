"""The readers of HTTP and their rights, which match the rights for ListGroups and Metadata.

| shown | needs |
|---|---|
| a group | DESCRIBE on the group, or DESCRIBE on the cluster |
| a topic | DESCRIBE on the topic |
| a record | READ on its topic |
| a transactional id | DESCRIBE on the transactional id |
| the broker, its clients, the cluster | DESCRIBE on the cluster |

Rights are checked at each use, so that the revocation of a right takes effect at the next update.
Without authentication, every reader sees everything.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from security.acls.model import CLUSTER_NAME, Operation, ResourceType, spelled

if TYPE_CHECKING:
    from starlette.types import Scope

    from broker.authorizer.authorizer import Authorizer
    from security.principal import Principal

_READER: Final = "muster.reader"


class Reader:
    """A reader with all rights. Subclasses restrict the rights."""

    is_stranger = False
    """True for an anonymous reader, which sees only the broker's state."""
    key: object = None
    """A key that is equal for readers with the same rights."""

    @property
    def epoch(self) -> int:
        """A number that changes when the reader's rights may have changed."""
        return 0

    @property
    def sees_everything(self) -> bool:
        """True if the reader has all rights, so that no check is needed."""
        return True

    async def stands(self) -> bool:
        """Returns True while the reader's login is valid."""
        return True

    def may(self, operation: Operation, kind: ResourceType, name: str) -> bool:
        del operation, kind, name
        return True

    def describes(self, kind: ResourceType, name: str) -> bool:
        """Returns True if the reader may see the group, topic or transactional id ``name``."""
        return self.may(Operation.DESCRIBE, kind, name)

    @property
    def sees_cluster(self) -> bool:
        """Returns True if the reader may see the broker, its clients and the cluster."""
        return self.describes(ResourceType.CLUSTER, CLUSTER_NAME)

    def sees_group(self, name: str) -> bool:
        """Returns True if ListGroups would return the group to the reader."""
        return self.sees_cluster or self.describes(ResourceType.GROUP, name)

    def sees_topic(self, name: str) -> bool:
        """Returns True if Metadata would return the topic to the reader."""
        return self.describes(ResourceType.TOPIC, name)

    def sees_transactional_id(self, name: str) -> bool:
        """Returns True if ListTransactions would return the transactional id to the reader."""
        return self.describes(ResourceType.TRANSACTIONAL_ID, name)

    def denied(self, operation: Operation, kind: ResourceType, name: str) -> str:
        """Returns the error text for a request that names a resource on which the reader lacks the
        right."""
        return self.sentence(operation, kind, name)

    def sentence(self, operation: Operation, kind: ResourceType, name: str) -> str:
        """Returns a sentence that names the right that the reader lacks."""
        what = "the cluster" if kind is ResourceType.CLUSTER else f"{spelled(kind).lower()} {name}"
        return f"{self.name} may not {spelled(operation)} {what}"

    name = "everybody"


EVERYTHING: Final = Reader()
"""The reader with all rights. It represents every reader if authentication is off, and the scraper
that sent the token of /metrics."""


class Stranger(Reader):
    """An anonymous reader."""

    is_stranger = True
    name = "an anonymous reader"

    @property
    def sees_everything(self) -> bool:
        return False

    def may(self, operation: Operation, kind: ResourceType, name: str) -> bool:
        del operation, kind, name
        return False


STRANGER: Final = Stranger()


class Asker:
    """An HTTP client, with the attributes of a Kafka connection that an authorizer reads."""

    def __init__(self, principal: Principal, host: str) -> None:
        self.principal = principal
        self.client_host = f"/{host}"
        self.client_id = "http"
        self.verdicts: object | None = None
        """Data that the authorizer caches about the principal, as in `Connection`."""


class JudgedReader(Reader):
    """A reader whose rights the authorizer decides."""

    def __init__(
        self,
        principal: Principal,
        host: str,
        authorizer: Authorizer,
        stands: Callable[[], Awaitable[bool]],
    ) -> None:
        """Creates the reader. ``stands`` returns True while the login is valid."""
        self._asker: Any = Asker(principal, host)
        self._authorizer = authorizer
        self._stands = stands
        self.name = str(principal)
        self.key = (principal, host)

    @property
    def epoch(self) -> int:
        """The epoch of the authorizer, which changes when the ACLs may have changed."""
        return self._authorizer.epoch

    @property
    def sees_everything(self) -> bool:
        """True if the authorizer allows the principal every operation."""
        return not self._authorizer.judges

    async def stands(self) -> bool:
        return await self._stands()

    def may(self, operation: Operation, kind: ResourceType, name: str) -> bool:
        """Returns the authorizer's current decision. Does not write to the audit log, because a
        denial only omits a row from a list."""
        return self._allowed(operation, kind, name, is_logged=False)

    def denied(self, operation: Operation, kind: ResourceType, name: str) -> str:
        self._allowed(operation, kind, name, is_logged=True)
        return self.sentence(operation, kind, name)

    def _allowed(
        self, operation: Operation, kind: ResourceType, name: str, *, is_logged: bool
    ) -> bool:
        return self._authorizer.allows(
            self._asker, operation, kind, name, api="HTTP", is_logged=is_logged
        )


def reader_of(scope: Scope) -> Reader:
    """Returns the reader of a request, as `set_reader` has stored it. Without authentication,
    returns a reader with all rights."""
    found = scope.get(_READER, EVERYTHING)
    assert isinstance(found, Reader)
    return found


def set_reader(scope: Scope, reader: Reader) -> None:
    scope[_READER] = reader
