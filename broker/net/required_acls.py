"""The ACLs that requests of an API need, as rows of the table of APIs.

This module has values only. Handlers check them through `broker/apis/shared/authorization.py`,
which has the same constants; docs/use/coverage.md lists them.
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
"""The error code of a denial, by resource type."""

NOUNS = {
    ResourceType.TOPIC: "topic",
    ResourceType.GROUP: "group",
    ResourceType.CLUSTER: "cluster",
    ResourceType.TRANSACTIONAL_ID: "transactional id",
    ResourceType.DELEGATION_TOKEN: "token",
}


@slotted(frozen=True)
class RequiredAcl:
    """An operation on the one resource in a request, or on the cluster."""

    operation: Operation
    kind: ResourceType
    is_logged: bool = True
    """Whether the audit log records a denial; False if another ACL may allow the request."""


@slotted(frozen=True)
class AnyOf:
    """Required ACLs of which one is enough."""

    needs: tuple[RequiredAcl, ...]


@slotted(frozen=True)
class Each:
    """An operation on each element of a request; only denied elements get an error."""

    operation: Operation
    kind: ResourceType
    unless: RequiredAcl | None = None
    """A principal with this ACL needs no other for any element."""

    is_logged = True


@slotted(frozen=True)
class EachResource:
    """An operation on each resource, by its type, that a configs request names."""

    operation: Operation


@slotted(frozen=True)
class Hides:
    """Elements that the response omits for principals without the operation."""

    operation: Operation
    kind: ResourceType
    unless: RequiredAcl | None = None
    """A principal with this ACL sees all elements."""

    is_logged = False


@slotted(frozen=True)
class HandlerAcl:
    """An operation that the handler checks at its own time or only in some cases."""

    operation: Operation
    kind: ResourceType
    of: str
    """The resource, in words."""
    when: str = ""
    """The case in which it is checked, in words."""
    unless: RequiredAcl | None = None
    """A principal with this ACL does not need the operation."""
    is_logged: bool = True
    """Whether the audit log records a denial."""


@slotted(frozen=True)
class AuthorizedOperations:
    """The response lists the principal's operations on a resource if the request asks for it
    (KIP-430)."""

    kind: ResourceType
    need: RequiredAcl | None = None
    """The list is omitted for principals without this ACL."""


@slotted(frozen=True)
class Rights:
    """The ACLs that one API checks, in order."""

    needs: tuple[RequiredAcl | AnyOf, ...] = ()
    """ACLs without which the whole request is rejected."""
    each: Each | EachResource | None = None
    hides: tuple[Hides, ...] = ()
    own: tuple[HandlerAcl, ...] = ()
    """ACLs that the handler checks itself."""
    tells: tuple[AuthorizedOperations, ...] = ()
    """The authorized operations that the response lists."""
    why_none: str = ""
    """Why the API needs no ACL."""


def group(operation: Operation) -> RequiredAcl:
    """Requires an operation on the request's group."""
    return RequiredAcl(operation, ResourceType.GROUP)


def transactional_id(operation: Operation) -> RequiredAcl:
    """Requires an operation on the request's transactional id."""
    return RequiredAcl(operation, ResourceType.TRANSACTIONAL_ID)


def cluster(operation: Operation, *, is_logged: bool = True) -> RequiredAcl:
    """Requires an operation on the cluster."""
    return RequiredAcl(operation, ResourceType.CLUSTER, is_logged)


def of_each(
    kind: ResourceType, operation: Operation, unless: RequiredAcl | None = None
) -> HandlerAcl:
    """Requires an operation on each resource of a type that a request names."""
    return HandlerAcl(operation, kind, f"each {NOUNS[kind]}", unless=unless)


def each_shown_topic() -> HandlerAcl:
    """Requires DESCRIBE on each named topic, or on each returned one if all are requested."""
    of = "each topic; where all topics are asked for, those that the principal may describe"
    return HandlerAcl(Operation.DESCRIBE, ResourceType.TOPIC, of)


def cluster_action(when: str) -> HandlerAcl:
    """Requires CLUSTER_ACTION, which is reserved for brokers."""
    return HandlerAcl(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, "the cluster", when)


def nothing(why: str) -> Rights:
    """The row of an API that needs no ACL, with the reason."""
    return Rights(why_none=why)


UNSAID = Rights()
"""The default of a row; the tests reject it for a served API."""
CLUSTER_ACTION = cluster(Operation.CLUSTER_ACTION)
"""The ACL of brokers."""
AMONG_BROKERS = Rights((CLUSTER_ACTION,))
"""The ACLs of requests between brokers."""
