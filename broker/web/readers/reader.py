"""The readers of the HTTP side and their rights, which match those of ListGroups and Metadata.

  | shown | needs |
  |---|---|
  | a group | DESCRIBE on it, or DESCRIBE on the cluster |
  | a topic | DESCRIBE on it |
  | a record | READ on its topic |
  | a transactional id | DESCRIBE on it |
  | the broker, its clients, the cluster | DESCRIBE on the cluster |

Rights are checked on each use, so that a revoked right has no effect after the next update. Without
authentication, everybody sees everything.
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
    """A reader who sees everything."""

    is_stranger = False
    """True for an anonymous reader, who sees only that the broker is up."""
    key: object = None
    """Equal for readers with the same rights."""

    @property
    def epoch(self) -> int:
        """Changes when rights may have changed."""
        return 0

    @property
    def sees_everything(self) -> bool:
        """Whether no right needs a check."""
        return True

    async def stands(self) -> bool:
        """Whether the reader's login is still valid."""
        return True

    def may(self, operation: Operation, kind: ResourceType, name: str) -> bool:
        """Whether the reader has a right on a resource."""
        del operation, kind, name
        return True

    def describes(self, kind: ResourceType, name: str) -> bool:
        """Whether the reader may see a group, topic or transactional id."""
        return self.may(Operation.DESCRIBE, kind, name)

    @property
    def sees_cluster(self) -> bool:
        """Whether the reader may see the broker, its clients and the cluster."""
        return self.describes(ResourceType.CLUSTER, CLUSTER_NAME)

    def sees_group(self, name: str) -> bool:
        """Whether ListGroups would show the group."""
        return self.sees_cluster or self.describes(ResourceType.GROUP, name)

    def sees_topic(self, name: str) -> bool:
        """Whether Metadata would show the topic."""
        return self.describes(ResourceType.TOPIC, name)

    def sees_transactional_id(self, name: str) -> bool:
        """Whether ListTransactions would show the id."""
        return self.describes(ResourceType.TRANSACTIONAL_ID, name)

    def denied(self, operation: Operation, kind: ResourceType, name: str) -> str:
        """The error for a request that names a resource without the right to it."""
        return self.sentence(operation, kind, name)

    def sentence(self, operation: Operation, kind: ResourceType, name: str) -> str:
        """The text that names the missing right."""
        what = "the cluster" if kind is ResourceType.CLUSTER else f"{spelled(kind).lower()} {name}"
        return f"{self.name} may not {spelled(operation)} {what}"

    name = "everybody"


EVERYTHING: Final = Reader()
"""The reader with all rights: any client without authentication, and the token of
/metrics."""


class Stranger(Reader):
    """An anonymous reader."""

    is_stranger = True
    name = "an anonymous reader"

    @property
    def sees_everything(self) -> bool:
        """Always false."""
        return False

    def may(self, operation: Operation, kind: ResourceType, name: str) -> bool:
        """Always false."""
        del operation, kind, name
        return False


STRANGER: Final = Stranger()


class Asker:
    """An HTTP client in the form in which an authorizer knows a Kafka connection."""

    def __init__(self, principal: Principal, host: str) -> None:
        self.principal = principal
        self.client_host = f"/{host}"
        self.client_id = "http"
        self.verdicts: object | None = None
        """The authorizer's cache, as in `Connection`."""


class JudgedReader(Reader):
    """A principal whose rights the authorizer decides."""

    def __init__(
        self,
        principal: Principal,
        host: str,
        authorizer: Authorizer,
        stands: Callable[[], Awaitable[bool]],
    ) -> None:
        """``stands`` checks the login again."""
        self._asker: Any = Asker(principal, host)
        self._authorizer = authorizer
        self._stands = stands
        self.name = str(principal)
        self.key = (principal, host)

    @property
    def epoch(self) -> int:
        """The epoch of the authorizer."""
        return self._authorizer.epoch

    @property
    def sees_everything(self) -> bool:
        """Whether the authorizer allows everything."""
        return not self._authorizer.judges

    async def stands(self) -> bool:
        """Whether the login would succeed again."""
        return await self._stands()

    def may(self, operation: Operation, kind: ResourceType, name: str) -> bool:
        """The authorizer's current decision; a row that a list omits is not worth an audit line."""
        return self._allowed(operation, kind, name, is_logged=False)

    def denied(self, operation: Operation, kind: ResourceType, name: str) -> str:
        """The error text; writes a line to the audit log."""
        self._allowed(operation, kind, name, is_logged=True)
        return self.sentence(operation, kind, name)

    def _allowed(
        self, operation: Operation, kind: ResourceType, name: str, *, is_logged: bool
    ) -> bool:
        return self._authorizer.allows(
            self._asker, operation, kind, name, api="HTTP", is_logged=is_logged
        )


def reader_of(scope: Scope) -> Reader:
    """The reader of a request, set by `broker/web/readers/authentication.py` if enabled."""
    found = scope.get(_READER, EVERYTHING)
    assert isinstance(found, Reader)
    return found


def set_reader(scope: Scope, reader: Reader) -> None:
    """Set the reader of a request, for `reader_of`."""
    scope[_READER] = reader
