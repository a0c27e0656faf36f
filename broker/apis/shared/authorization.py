"""Authorizes requests for the handlers, on the final list of resources (ARCHITECTURE.md, law 12).

A handler passes one of the required ACLs of its row in the table of served APIs
(`broker/net/required_acls.py`), and responds to denials itself. Allowed names are cached on the
connection (`broker/net/authorization_cache.py`) until an ACL changes or the connection gets another
principal. Denied names are not cached, so that the audit log counts each denial.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from broker.net.authorization_cache import AuthorizationCache, Names
from broker.net.request import Request
from broker.net.required_acls import (
    DENIED,
    AuthorizedOperations,
    Each,
    EachResource,
    HandlerAcl,
    Hides,
    RequiredAcl,
)
from protocol.errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    GROUP_AUTHORIZATION_FAILED,
    TOPIC_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
from security.acls.model import CLUSTER_NAME, ResourceType

if TYPE_CHECKING:
    from broker.apis.shared.services import Services
    from broker.authorizer.authorizer import Authorizer
    from broker.net.connection import Connection

T = TypeVar("T")
Right: TypeAlias = RequiredAcl | HandlerAcl | Each | Hides
"""An ACL that a request needs: an operation on a type of resource."""

NOT_ASKED = -(1 << 31)
"""The value of the field authorized_operations (KIP-430) if the request does not ask for
operations."""
NAMES_KEPT = 10_000
"""The maximum number of names that a connection caches for one operation and resource type. A
larger cache is cleared; the limit also bounds the work of clearing."""
_ANSWERED_AT_ONCE_BYTES = 2048
"""If a denied request is larger than this number of bytes, a worker thread encodes the response, so
that the encoding does not block the event loop."""

_WITH_SETTINGS = {
    2: ResourceType.TOPIC,
    4: ResourceType.CLUSTER,
    8: ResourceType.CLUSTER,
    16: ResourceType.CLUSTER,
    32: ResourceType.GROUP,
}
"""Types of resources with settings, by code: topic, broker, broker logger, client metrics and
group."""

TEXTS: Mapping[int, str] = {
    TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
    DELEGATION_TOKEN_AUTHORIZATION_FAILED: "Delegation Token authorization failed.",
}
"""Kafka's error messages; they do not reveal whether the resource exists."""


def error_fields(error_code: int) -> dict[str, Any]:
    """Returns the fields of a denial: the error code and its text."""
    return {"error_code": error_code, "error_message": TEXTS[error_code]}


def is_allowed(
    services: Services,
    request: Request,
    right: Right,
    name: str = CLUSTER_NAME,
    *,
    count: int = 1,
    is_logged: bool = True,
) -> bool:
    """Returns True if the client may perform the operation ``right`` on the resource ``name``, by
    default on the cluster.

    ``count`` is how often the request names the resource, for the audit log.
    """
    authorizer = services.authorizer
    if not authorizer.judges:
        return True
    connection = request.connection
    known = _known(authorizer, connection, right)
    if name in known:
        return True
    api = request.route.served.api.name
    is_logged = is_logged and right.is_logged
    allowed = authorizer.allows(
        connection, right.operation, right.kind, name, api=api, count=count, is_logged=is_logged
    )
    if allowed:
        known.keep(name)
    return allowed


def are_known(
    services: Services, request: Request, right: Right, names: Collection[str | None]
) -> bool:
    """Returns True if the connection's cache allows all names, so that the authorizer need not be
    called."""
    authorizer = services.authorizer
    return not authorizer.judges or _known(authorizer, request.connection, right).issuperset(names)


def denied(
    services: Services,
    request: Request,
    right: Right,
    names: Iterable[str | None],
    *,
    is_logged: bool = True,
) -> Generator[None, None, Set[str]]:
    """Returns the names in ``names`` that are denied to the client. Skips None.

    The work is done in steps, because each decision looks up the ACLs of every prefix of a name.
    The audit log counts a name as often as ``names`` contains it.
    """
    authorizer, connection = services.authorizer, request.connection
    if not authorizer.judges:
        return frozenset()
    times = yield from _counted(names)
    if _known(authorizer, connection, right).issuperset(times):
        return frozenset()
    api = request.route.served.api.name
    is_logged = is_logged and right.is_logged
    found: set[str] = set()
    for name, count in times.items():
        known = _known(authorizer, connection, right)  # ACLs may have changed since the last step
        if name in known:
            continue
        if authorizer.allows(
            connection,
            right.operation,
            right.kind,
            name,
            api=api,
            count=count,
            is_logged=is_logged,
        ):
            known.keep(name)
        else:
            found.add(name)
        yield None
    return found


def named_once(elements: Iterable[Mapping[str, Any]]) -> Generator[None, None, Set[str]]:
    """Returns the names that occur only once in ``elements``, in order. The work is done in steps.

    For a name that occurs several times, the handler returns an error without authorizing the name.
    """
    single: dict[str, None] = {}
    repeated: set[str] = set()
    for element in elements:
        name = element["name"]
        if name in single:
            del single[name]
            repeated.add(name)
        elif name not in repeated:
            single[name] = None
        yield None
    return single.keys()


def split(
    services: Services,
    request: Request,
    right: Right,
    elements: Sequence[T],
    name_of: Callable[[T], str | None],
) -> Generator[None, None, tuple[Sequence[T], Sequence[T]]]:
    """Splits the elements of a request into allowed and denied elements. The work is done in steps.

    An element whose name is None counts as allowed: the handler then returns another error.
    """
    if not services.authorizer.judges:
        return elements, ()
    refused = yield from denied(services, request, right, map(name_of, elements))
    if not refused:
        return elements, ()
    kept: list[T] = []
    others: list[T] = []
    for element in elements:
        (others if name_of(element) in refused else kept).append(element)
        yield None
    return kept, others


def split_resources(
    services: Services,
    request: Request,
    right: EachResource,
    resources: Sequence[dict[str, Any]],
    is_left: Callable[[dict[str, Any]], bool],
) -> Generator[None, None, tuple[Sequence[dict[str, Any]], Mapping[int, Sequence[dict[str, Any]]]]]:
    """Splits ``resources`` into the allowed resources, and the denied resources by error code.
    Works in steps.

    Two kinds of resources count as allowed, because the handler decides about them: resources of an
    unknown type, and resources for which ``is_left`` returns True.
    """
    if not services.authorizer.judges:
        return resources, {}
    places: list[tuple[ResourceType, str] | None] = []
    names: dict[ResourceType, list[str]] = {}
    for resource in resources:
        kind = _WITH_SETTINGS.get(resource["resource_type"])
        place = None
        if kind is not None and not is_left(resource):
            is_cluster = kind is ResourceType.CLUSTER
            place = kind, CLUSTER_NAME if is_cluster else resource["resource_name"]
            names.setdefault(kind, []).append(place[1])
        places.append(place)
        yield None
    refused: dict[ResourceType, Set[str]] = {}
    for kind, named in names.items():
        of_kind = Each(right.operation, kind)
        refused[kind] = yield from denied(services, request, of_kind, named)
    kept: list[dict[str, Any]] = []
    others: dict[int, list[dict[str, Any]]] = {}
    for resource, place in zip(resources, places, strict=True):
        if place is not None and place[1] in refused[place[0]]:
            others.setdefault(DENIED[place[0]], []).append(resource)
        else:
            kept.append(resource)
        yield None
    return kept, others


def cluster_operations(services: Services, request: Request, tells: AuthorizedOperations) -> int:
    """Returns the operations on the cluster that the client may perform, as bits; 0 if the client
    may not see them."""
    if tells.need is not None and not is_allowed(services, request, tells.need):
        return 0
    return services.authorizer.operations(request.connection, tells.kind, CLUSTER_NAME)


def refuse(
    request: Request, error_code: int, answer: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    """Responds to a denied request. ``answer`` returns the response for the decoded request. The
    worker thread encodes the response if the request is large.

    Raises ProtocolError if the request is incomplete.
    """
    value = request.value
    request.complete_later(
        lambda: request.frame(answer(value)),
        error_code,
        at_once=len(request.buffer) - request.position <= _ANSWERED_AT_ONCE_BYTES,
    )


def _known(authorizer: Authorizer, connection: Connection, right: Right) -> Names:
    """Returns the connection's cache of names that are allowed for ``right``. The caller may add
    names."""
    known = connection.authorization_cache
    epoch = authorizer.epoch
    if known is None or known.epoch != epoch or known.principal is not connection.principal:
        if known is not None:
            known.forget()
        known = connection.authorization_cache = AuthorizationCache(epoch, connection.principal)
    key = right.operation << 8 | right.kind
    names = known.names.get(key)
    if names is None:
        names = known.names[key] = Names(authorizer.authorization_cache)
    elif len(names) > NAMES_KEPT:
        names.forget()
    return names


def _counted(names: Iterable[str | None]) -> Generator[None, None, dict[str, int]]:
    """Returns how often each name occurs. None is not counted. The work is done in steps."""
    found: dict[str, int] = {}
    for name in names:
        if name is not None:
            found[name] = found.get(name, 0) + 1
        yield None
    return found
