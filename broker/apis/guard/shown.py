"""What an answer shows: elements left out in silence, and operations as the peer may do them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.apis.authorized import NOT_ASKED
from broker.apis.guard.allowed_part import AllowedPart, Keeps
from broker.apis.guard.judging import may, permitted, right_of
from broker.net.needs import Hides, Own, Rights, Tells
from broker.net.request import Handler, Request, Steps
from protocol.errors import NONE
from security.acls.model import CLUSTER_NAME, Operation, ResourceType

if TYPE_CHECKING:
    from broker.apis.services import Services
    from broker.rights.authorizer import Authorizer

CLUSTER_BITS = "cluster_authorized_operations"


def with_hidden(hides: Hides, inner: Handler, authorizer: Authorizer) -> Handler:
    """The handler, whose answer leaves out what the peer may not see."""

    def handle(services: Services, request: Request) -> Steps | None:
        if hides.unless is not None and may(authorizer, request, hides.unless):
            return inner(services, request)
        shown = shows(authorizer, request, hides.operation, hides.kind, hides.name)
        return inner(services, AllowedPart(services, request, keeps=(hides.path, shown)))

    return handle


def shows(
    authorizer: Authorizer, request: Request, operation: Operation, kind: ResourceType, name: str
) -> Keeps:
    """Whether an element is shown, by the field that names it; no denial is logged."""
    connection, api = request.connection, request.served.api.name
    of = right_of(operation, kind)

    def shown(entry: dict[str, Any]) -> bool:
        # Asked for anew: the answer may be made long after the request came.
        known = permitted(authorizer, connection, of)
        named = entry[name]
        if named in known:
            return True
        if authorizer.allows(connection, operation, kind, named, api=api, is_logged=False):
            known.keep(named)
            return True
        return False

    return shown


def own_shows(authorizer: Authorizer, request: Request, own: Own, name: str) -> Keeps:
    """The same, by what code of the API's own asks for."""
    return shows(authorizer, request, own.operation, own.kind, name)


def describe_groups(inner: Handler, authorizer: Authorizer, rights: Rights) -> Handler:
    """DescribeGroups: what the peer may do to each group, where it asks."""
    (groups,) = rights.tells

    def handle(services: Services, request: Request) -> Steps | None:
        if not request.value["include_authorized_operations"]:
            return inner(services, request)

        def told(entry: dict[str, Any]) -> bool:
            if entry["authorized_operations"] != NOT_ASKED:
                entry["authorized_operations"] = authorizer.operations(
                    request.connection, groups.kind, entry["group_id"]
                )
            return True

        return inner(services, AllowedPart(services, request, keeps=(("groups",), told)))

    return handle


def describe_cluster(inner: Handler, authorizer: Authorizer, rights: Rights) -> Handler:
    """DescribeCluster is never denied; what the peer may do is told where it asks."""
    (tells,) = rights.tells

    def handle(services: Services, request: Request) -> Steps | None:
        if not request.value["include_cluster_authorized_operations"]:
            return inner(services, request)
        bits = cluster_bits(authorizer, request, tells)

        def told(value: dict[str, Any]) -> None:
            if value["error_code"] == NONE:
                value[CLUSTER_BITS] = bits

        return inner(services, AllowedPart(services, request, finish=told))

    return handle


def cluster_bits(authorizer: Authorizer, request: Request, tells: Tells) -> int:
    """What the peer may do to the cluster; nothing is told to who may not even describe it."""
    if tells.need is not None and not may(authorizer, request, tells.need):
        return 0
    return authorizer.operations(request.connection, tells.kind, CLUSTER_NAME)
