"""The ACLs that requests of an API need, as rows of the table of APIs.

Values only. A handler checks them through `broker/apis/shared/authorization.py`, which has the same
constants; docs/use/coverage.md lists them.
"""

from __future__ import annotations

from protocol.errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    GROUP_AUTHORIZATION_FAILED,
    TOPIC_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
from protocol.slotted import slotted
from security.acls.model import Operation, ResourceType

DENIED = {
    ResourceType.TOPIC: TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""The error of a denial, by the type of the resource."""

NOUNS = {
    ResourceType.TOPIC: "topic",
    ResourceType.GROUP: "group",
    ResourceType.CLUSTER: "cluster",
    ResourceType.TRANSACTIONAL_ID: "transactional id",
    ResourceType.DELEGATION_TOKEN: "token",
}


@slotted(frozen=True)
class RequiredAcl:
    """An operation on the one resource that a request names, or on the cluster."""

    operation: Operation
    kind: ResourceType
    is_logged: bool = True
    """A denial is a line of the audit log; it is none where another need may stand in."""


@slotted(frozen=True)
class AnyOf:
    """Needs of which one is enough."""

    needs: tuple[RequiredAcl, ...]


@slotted(frozen=True)
class Each:
    """An operation on each element of a request: denied ones get their error, others an answer."""

    operation: Operation
    kind: ResourceType
    unless: RequiredAcl | None = None
    """A principal with this right may do it to all."""

    is_logged = True


@slotted(frozen=True)
class EachResource:
    """An operation on each resource of a request about settings, by its type."""

    operation: Operation


@slotted(frozen=True)
class Hides:
    """Elements that the answer omits for principals without the operation."""

    operation: Operation
    kind: ResourceType
    unless: RequiredAcl | None = None
    """A principal with this right sees all."""

    is_logged = False


@slotted(frozen=True)
class HandlerAcl:
    """An operation for which a handler asks in an order, or a case, of its own."""

    operation: Operation
    kind: ResourceType
    of: str
    """Of what, in words."""
    when: str = ""
    """In which case, in words."""
    unless: RequiredAcl | None = None
    """A principal with this right does not need the other."""
    is_logged: bool = True
    """See `RequiredAcl`."""


@slotted(frozen=True)
class AuthorizedOperations:
    """The answer shows the peer's operations on a resource, if the request asks for them
    (KIP-430)."""

    kind: ResourceType
    need: RequiredAcl | None = None
    """Omitted for a principal without this right."""


@slotted(frozen=True)
class Rights:
    """The ACLs that one API checks, in order."""

    needs: tuple[RequiredAcl | AnyOf, ...] = ()
    """Without which a request is refused as a whole."""
    each: Each | EachResource | None = None
    hides: tuple[Hides, ...] = ()
    own: tuple[HandlerAcl, ...] = ()
    """The ACLs that the handler checks in an order of its own."""
    tells: tuple[AuthorizedOperations, ...] = ()
    """The authorized operations in the answer."""
    why_none: str = ""
    """The reason why a row checks none."""


def group(operation: Operation) -> RequiredAcl:
    """The group of a request."""
    return RequiredAcl(operation, ResourceType.GROUP)


def transactional_id(operation: Operation) -> RequiredAcl:
    """The transactional id of a request."""
    return RequiredAcl(operation, ResourceType.TRANSACTIONAL_ID)


def cluster(operation: Operation, *, is_logged: bool = True) -> RequiredAcl:
    """The cluster itself."""
    return RequiredAcl(operation, ResourceType.CLUSTER, is_logged)


def of_each(
    kind: ResourceType, operation: Operation, unless: RequiredAcl | None = None
) -> HandlerAcl:
    """Each resource of a type that a request names."""
    return HandlerAcl(operation, kind, f"each {NOUNS[kind]}", unless=unless)


def each_shown_topic() -> HandlerAcl:
    """Each named topic, or each shown one if the request asks for all."""
    of = "each topic; where all topics are asked for, those that the principal may describe"
    return HandlerAcl(Operation.DESCRIBE, ResourceType.TOPIC, of)


def cluster_action(when: str) -> HandlerAcl:
    """An operation that is reserved for brokers."""
    return HandlerAcl(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, "the cluster", when)


def nothing(why: str) -> Rights:
    """An API that anybody may ask."""
    return Rights(why_none=why)


UNSAID = Rights()
"""A row that does not say; no served API may have it."""
CLUSTER_ACTION = cluster(Operation.CLUSTER_ACTION)
"""The right that only brokers have."""
AMONG_BROKERS = Rights((CLUSTER_ACTION,))
"""Requests between brokers."""
