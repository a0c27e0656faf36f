"""The ACLs that requests of an API need, as rows of the table of APIs.

This module contains only values. Handlers check the ACLs through
`broker/apis/shared/authorization.py`, which uses the same constants; docs/use/coverage.md lists the
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
    """True if the audit log records a denial; False if another ACL may still allow the request."""


@slotted(frozen=True)
class AnyOf:
    """Alternative ACLs, of which a principal needs at least one."""

    needs: tuple[RequiredAcl, ...]


@slotted(frozen=True)
class Each:
    """An operation that is required on each element of a request; only the denied elements get an
    error."""

    operation: Operation
    kind: ResourceType
    unless: RequiredAcl | None = None
    """An ACL that makes the ACLs on the elements unnecessary."""

    is_logged = True


@slotted(frozen=True)
class EachResource:
    """The operation that is required on each resource of a DescribeConfigs or AlterConfigs request;
    the ACL applies to the resource type of that resource."""

    operation: Operation


@slotted(frozen=True)
class Hides:
    """An operation that is required on the elements of a response; the response omits the elements
    on which the principal may not perform it."""

    operation: Operation
    kind: ResourceType
    unless: RequiredAcl | None = None
    """An ACL with which a principal sees all elements."""

    is_logged = False


@slotted(frozen=True)
class HandlerAcl:
    """An operation that the handler checks itself, because the check happens late or only in some
    cases."""

    operation: Operation
    kind: ResourceType
    of: str
    """The resource, as text for docs/use/coverage.md."""
    when: str = ""
    """The case in which the handler checks the operation, as text; "" if the handler checks it in
    every case."""
    unless: RequiredAcl | None = None
    """An ACL that makes the operation unnecessary."""
    is_logged: bool = True
    """True if the audit log records a denial."""


@slotted(frozen=True)
class AuthorizedOperations:
    """The operations on a resource that the principal may perform; the response lists them if the
    request sets the field for authorized operations (KIP-430)."""

    kind: ResourceType
    need: RequiredAcl | None = None
    """An ACL without which the response omits the list."""


@slotted(frozen=True)
class Rights:
    """The ACLs that one API checks, in the order of the checks."""

    needs: tuple[RequiredAcl | AnyOf, ...] = ()
    """The ACLs without which the whole request is rejected."""
    each: Each | EachResource | None = None
    hides: tuple[Hides, ...] = ()
    own: tuple[HandlerAcl, ...] = ()
    """The ACLs that the handler checks itself."""
    tells: tuple[AuthorizedOperations, ...] = ()
    """The authorized operations that the response lists."""
    why_none: str = ""
    """The reason why the API needs no ACL; "" if the API needs an ACL."""


def group(operation: Operation) -> RequiredAcl:
    """Returns a requirement: the operation on the request's group."""
    return RequiredAcl(operation, ResourceType.GROUP)


def transactional_id(operation: Operation) -> RequiredAcl:
    """Returns a requirement: the operation on the request's transactional id."""
    return RequiredAcl(operation, ResourceType.TRANSACTIONAL_ID)


def cluster(operation: Operation, *, is_logged: bool = True) -> RequiredAcl:
    """Returns a requirement: the operation on the cluster."""
    return RequiredAcl(operation, ResourceType.CLUSTER, is_logged)


def of_each(
    kind: ResourceType, operation: Operation, unless: RequiredAcl | None = None
) -> HandlerAcl:
    """Returns a requirement: the operation on each resource of the type ``kind`` that a request
    names."""
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
    """Returns a requirement: CLUSTER_ACTION, which is reserved for brokers, in the case
    ``when``."""
    return HandlerAcl(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, "the cluster", when)


def nothing(why: str) -> Rights:
    """Returns the rights of an API that needs no ACL; ``why`` is the reason."""
    return Rights(why_none=why)


UNSAID = Rights()
"""The default for a row of the table of APIs; the tests fail if a served API has this default."""
CLUSTER_ACTION = cluster(Operation.CLUSTER_ACTION)
"""The ACL that the other brokers of the cluster need."""
AMONG_BROKERS = Rights((CLUSTER_ACTION,))
"""The ACLs that requests between brokers need."""
