"""Asks the authorizer on behalf of a request, and remembers on the connection what was allowed.

What was allowed stays so until the authorizer's epoch moves or the connection speaks for somebody
else. What was denied is asked again each time: each denial is a line of the audit log.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Set
from typing import TYPE_CHECKING, TypeVar

from broker.net.needs import AnyOf, Need, Own
from broker.net.permitted import Names, Permitted
from broker.net.request import Request
from security.acls.model import CLUSTER_NAME, Operation, ResourceType

if TYPE_CHECKING:
    from broker.net.connection import Connection
    from broker.rights.authorizer import Authorizer

T = TypeVar("T")

NAMES_KEPT = 10_000
"""Names kept on a connection for one operation; then it begins anew. What is forgotten at a time
is bounded so, too."""

BY_KEY = 1 << 17
"""In a right of topics whose names and ids are known as requests have them."""

Steps = Generator[None, None, Set[str]]


def right_of(operation: Operation, kind: ResourceType) -> int:
    """The key of an operation on a type of resource in `Permitted.names`."""
    return operation << 8 | kind


def permitted(authorizer: Authorizer, connection: Connection, of: int) -> Names:
    """The names that are known to be allowed for the right ``of``, to be read and added to."""
    known = connection.permitted
    epoch = authorizer.index.epoch
    if known is None or known.epoch != epoch or known.principal is not connection.principal:
        if known is not None:
            known.forget()
        known = connection.permitted = Permitted(epoch, connection.principal)
    names = known.names.get(of)
    if names is None:
        names = known.names[of] = Names(authorizer.permitted)
    elif len(names) > NAMES_KEPT:
        names.forget()
    return names


def own_denied_in_steps(
    authorizer: Authorizer, request: Request, own: Own, names: Mapping[str, int]
) -> Steps:
    """The same of what code of the API's own asks for."""
    return denied_in_steps(
        authorizer, request, own.operation, own.kind, names, is_logged=own.is_logged
    )


def denied_in_steps(
    authorizer: Authorizer,
    request: Request,
    operation: Operation,
    kind: ResourceType,
    names: Mapping[str, int],
    *,
    is_logged: bool = True,
) -> Steps:
    """Those of ``names``, with how often the request says each, that are denied.

    A verdict takes as long as there are lengths of prefixes: others may have their turn after each.
    """
    connection, of = request.connection, right_of(operation, kind)
    if permitted(authorizer, connection, of).issuperset(names):
        return frozenset()
    api = request.served.api.name
    denied: set[str] = set()
    for name, count in names.items():
        known = permitted(authorizer, connection, of)  # entries may have changed meanwhile
        if name in known:
            continue
        if authorizer.allows(
            connection, operation, kind, name, api=api, count=count, is_logged=is_logged
        ):
            known.keep(name)
        else:
            denied.add(name)
        yield None
    return denied


def counted(names: Iterable[T | None]) -> Generator[None, None, dict[T, int]]:
    """The number of times each name occurs, None left out; pauses after each name."""
    found: dict[T, int] = {}
    for name in names:
        if name is not None:
            found[name] = found.get(name, 0) + 1
        yield None
    return found


def may(authorizer: Authorizer, request: Request, need: Need | AnyOf | Own, name: str = "") -> bool:
    """Whether the peer may do what is needed, to the resource of that name or to the cluster."""
    if isinstance(need, AnyOf):
        return any(may(authorizer, request, each, name) for each in need.needs)
    return authorizer.allows(
        request.connection,
        need.operation,
        need.kind,
        CLUSTER_NAME if need.kind is ResourceType.CLUSTER else name,
        api=request.served.api.name,
        is_logged=need.is_logged,
    )
