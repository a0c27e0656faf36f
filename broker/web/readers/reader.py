"""Who reads the HTTP side, and what he may see: what ListGroups, Metadata and others would show.

| shown | to whom may |
|---|---|
| a group | DESCRIBE it, or DESCRIBE the cluster |
| a topic | DESCRIBE it |
| a record | READ its topic |
| a transactional id | DESCRIBE it |
| the broker, its clients, the cluster | DESCRIBE the cluster |

Rights are judged whenever they are asked for, so that what is taken away is gone at the next look.
Where nobody has to say who he is, everybody sees everything.
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
    """One who sees everything."""

    is_stranger = False
    """Whether it is nobody known: such a one sees that the broker is up, and no more."""
    key: object = None
    """Equal for those who see the same."""

    @property
    def epoch(self) -> int:
        """Moves when rights may have changed."""
        return 0

    @property
    def sees_everything(self) -> bool:
        """Whether nothing needs to be judged."""
        return True

    async def stands(self) -> bool:
        """Whether he is still let in."""
        return True

    def may(self, operation: Operation, kind: ResourceType, name: str) -> bool:
        """Whether he may do something to a resource."""
        del operation, kind, name
        return True

    def describes(self, kind: ResourceType, name: str) -> bool:
        """Whether he may see a group, topic or transactional id."""
        return self.may(Operation.DESCRIBE, kind, name)

    @property
    def sees_cluster(self) -> bool:
        """Whether he may see the broker, its clients, the cluster."""
        return self.describes(ResourceType.CLUSTER, CLUSTER_NAME)

    def sees_group(self, name: str) -> bool:
        """Whether ListGroups would show it."""
        return self.sees_cluster or self.describes(ResourceType.GROUP, name)

    def sees_topic(self, name: str) -> bool:
        """Whether Metadata would show it."""
        return self.describes(ResourceType.TOPIC, name)

    def sees_transactional_id(self, name: str) -> bool:
        """Whether ListTransactions would show it."""
        return self.describes(ResourceType.TRANSACTIONAL_ID, name)

    def denied(self, operation: Operation, kind: ResourceType, name: str) -> str:
        """The sentence for him who may not, and asked for one thing by its name."""
        return self.sentence(operation, kind, name)

    def sentence(self, operation: Operation, kind: ResourceType, name: str) -> str:
        """What he has not."""
        what = "the cluster" if kind is ResourceType.CLUSTER else f"{spelled(kind).lower()} {name}"
        return f"{self.name} may not {spelled(operation)} {what}"

    name = "everybody"


EVERYTHING: Final = Reader()
"""Whoever asks where nobody has to say who he is, or brings the token of /metrics."""


class Stranger(Reader):
    """Nobody known."""

    is_stranger = True
    name = "an anonymous reader"

    @property
    def sees_everything(self) -> bool:
        """Nothing."""
        return False

    def may(self, operation: Operation, kind: ResourceType, name: str) -> bool:
        """Nothing."""
        del operation, kind, name
        return False


STRANGER: Final = Stranger()


class Asker:
    """One who asks over HTTP, as an authorizer knows a connection of Kafka's."""

    def __init__(self, principal: Principal, host: str) -> None:
        self.principal = principal
        self.client_host = f"/{host}"
        self.client_id = "http"
        self.verdicts: object | None = None
        """See `Connection`."""


class JudgedReader(Reader):
    """A principal, judged by the authorizer."""

    def __init__(
        self,
        principal: Principal,
        host: str,
        authorizer: Authorizer,
        stands: Callable[[], Awaitable[bool]],
    ) -> None:
        """``stands`` says whether he would be let in again."""
        self._asker: Any = Asker(principal, host)
        self._authorizer = authorizer
        self._stands = stands
        self.name = str(principal)
        self.key = (principal, host)

    @property
    def epoch(self) -> int:
        """That of the authorizer."""
        return self._authorizer.epoch

    @property
    def sees_everything(self) -> bool:
        """Whether the authorizer allows everything."""
        return not self._authorizer.judges

    async def stands(self) -> bool:
        """Whether he would be let in again."""
        return await self._stands()

    def may(self, operation: Operation, kind: ResourceType, name: str) -> bool:
        """As the authorizer judges now; what a list leaves out is worth no audit line."""
        return self._allowed(operation, kind, name, is_logged=False)

    def denied(self, operation: Operation, kind: ResourceType, name: str) -> str:
        """The sentence, and a line of the audit log."""
        self._allowed(operation, kind, name, is_logged=True)
        return self.sentence(operation, kind, name)

    def _allowed(
        self, operation: Operation, kind: ResourceType, name: str, *, is_logged: bool
    ) -> bool:
        return self._authorizer.allows(
            self._asker, operation, kind, name, api="HTTP", is_logged=is_logged
        )


def reader_of(scope: Scope) -> Reader:
    """Who asks; set by `broker/web/readers/authentication.py` where there is any."""
    found = scope.get(_READER, EVERYTHING)
    assert isinstance(found, Reader)
    return found


def set_reader(scope: Scope, reader: Reader) -> None:
    """Notes who asks, for `reader_of`."""
    scope[_READER] = reader
