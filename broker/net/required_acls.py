"""The ACLs that requests of an API need, as rows of the table of APIs.

This module contains only values. Handlers check the ACLs through
`broker/apis/shared/authorization.py`, which has the same constants; docs/use/coverage.md lists the
ACLs.
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
"""The error code of a denied operation, by resource type."""

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
    """Whether the audit log records a denial; False if another ACL may still allow the request."""


@slotted(frozen=True)
class AnyOf:
    """Alternative ACLs: a principal needs one of them."""

    needs: tuple[RequiredAcl, ...]


@slotted(frozen=True)
class Each:
    """An operation on each element of a request; only the denied elements get an error."""

    operation: Operation
    kind: ResourceType
    unless: RequiredAcl | None = None
    """A principal with this ACL needs no ACL on the elements."""

    is_logged = True


@slotted(frozen=True)
class EachResource:
    """The operation that is required on each resource of a DescribeConfigs or AlterConfigs request;
    the resource type of the ACL is the type of the resource."""

    operation: Operation


@slotted(frozen=True)
class Hides:
    """Elements that the response omits if the principal may not perform the operation on them."""

    operation: Operation
    kind: ResourceType
    unless: RequiredAcl | None = None
    """A principal with this ACL sees all elements."""

    is_logged = False


@slotted(frozen=True)
class HandlerAcl:
    """An operation that the handler checks itself, since the check is late or only in some
    cases."""

    operation: Operation
    kind: ResourceType
    of: str
    """The resource, in words, for docs/use/coverage.md."""
    when: str = ""
    """The case in which the handler checks the operation, in words; "" for every case."""
    unless: RequiredAcl | None = None
    """A principal with this ACL does not need the operation."""
    is_logged: bool = True
    """Whether the audit log records a denial."""


@slotted(frozen=True)
class AuthorizedOperations:
    """The operations on a resource that the principal may perform; the response lists them if the
    request asks for them (KIP-430)."""

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
    """The reason why the API needs no ACL; "" if it needs one."""


def group(operation: Operation) -> RequiredAcl:
    """Returns the requirement of an operation on the request's group."""
    return RequiredAcl(operation, ResourceType.GROUP)


def transactional_id(operation: Operation) -> RequiredAcl:
    """Returns the requirement of an operation on the request's transactional id."""
    return RequiredAcl(operation, ResourceType.TRANSACTIONAL_ID)


def cluster(operation: Operation, *, is_logged: bool = True) -> RequiredAcl:
    """Returns the requirement of an operation on the cluster."""
    return RequiredAcl(operation, ResourceType.CLUSTER, is_logged)


def of_each(
    kind: ResourceType, operation: Operation, unless: RequiredAcl | None = None
) -> HandlerAcl:
    """Returns the requirement of an operation on each resource of a type that a request names."""
    return HandlerAcl(operation, kind, f"each {NOUNS[kind]}", unless=unless)


def each_shown_topic() -> HandlerAcl:
    """Returns the requirement of DESCRIBE on each named topic, or on each returned topic if a
    request is for all topics."""
    of = (
        "each named topic; a request for all topics returns only the topics that the principal"
        " may describe"
    )
    return HandlerAcl(Operation.DESCRIBE, ResourceType.TOPIC, of)


def cluster_action(when: str) -> HandlerAcl:
    """Returns the requirement of CLUSTER_ACTION, which is reserved for brokers."""
    return HandlerAcl(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, "the cluster", when)


def nothing(why: str) -> Rights:
    """Returns the row of an API that needs no ACL; ``why`` is the reason."""
    return Rights(why_none=why)


UNSAID = Rights()
"""The default of a row of the table; the tests reject this default for a served API."""
CLUSTER_ACTION = cluster(Operation.CLUSTER_ACTION)
"""The ACL that brokers need."""
AMONG_BROKERS = Rights((CLUSTER_ACTION,))
"""The ACLs of requests between brokers."""
