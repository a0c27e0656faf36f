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
"""The error code for a denied operation, by type of the resource."""

NOUNS = {
    ResourceType.TOPIC: "topic",
    ResourceType.GROUP: "group",
    ResourceType.CLUSTER: "cluster",
    ResourceType.TRANSACTIONAL_ID: "transactional id",
    ResourceType.DELEGATION_TOKEN: "token",
}


@slotted(frozen=True)
class RequiredAcl:
    """An operation on the single resource that a request names, or on the cluster."""

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
    """An operation that the principal needs on each element of a request. Only denied elements get
    an error."""

    operation: Operation
    kind: ResourceType
    unless: RequiredAcl | None = None
    """An ACL on another resource. A principal with this ACL does not need the ACLs on the elements.
    """

    is_logged = True


@slotted(frozen=True)
class EachResource:
    """For DescribeConfigs and AlterConfigs: the principal needs ``operation`` on each resource of
    the request. The type of the resource determines the type of the ACL, such as CLUSTER for a
    broker."""

    operation: Operation


@slotted(frozen=True)
class Hides:
    """An operation that the principal needs on each element of a response. The response omits the
    denied elements."""

    operation: Operation
    kind: ResourceType
    unless: RequiredAcl | None = None
    """A principal with this ACL sees all elements. None if no ACL has this effect."""

    is_logged = False


@slotted(frozen=True)
class HandlerAcl:
    """An operation for which the API's handler itself checks the principal's ACLs, because the
    check happens late or only in some cases."""

    operation: Operation
    kind: ResourceType
    of: str
    """The resource on which the operation is checked, as text for docs/use/coverage.md."""
    when: str = ""
    """The case in which the handler checks the operation, as text; "" if the handler checks it in
    every case."""
    unless: RequiredAcl | None = None
    """A second ACL that is sufficient instead of the ACL for the operation. None if no other ACL is
    sufficient."""
    is_logged: bool = True


@slotted(frozen=True)
class AuthorizedOperations:
    """The operations that the principal may perform on a resource, for a response to a request that
    asks for authorized operations (KIP-430)."""

    kind: ResourceType
    need: RequiredAcl | None = None
    """The ACL without which the response omits the list of authorized operations. None if no ACL is
    needed."""


@slotted(frozen=True)
class Rights:
    """The ACLs that one API checks, in order."""

    needs: tuple[RequiredAcl | AnyOf, ...] = ()
    """The ACLs that the principal needs for the request. If one of them is missing, the whole
    request is rejected."""
    each: Each | EachResource | None = None
    hides: tuple[Hides, ...] = ()
    own: tuple[HandlerAcl, ...] = ()
    tells: tuple[AuthorizedOperations, ...] = ()
    """The resources for which a response lists the principal's authorized operations."""
    why_none: str = ""
    """The reason why the API needs no ACL; "" if the API needs an ACL."""


def group(operation: Operation) -> RequiredAcl:
    return RequiredAcl(operation, ResourceType.GROUP)


def transactional_id(operation: Operation) -> RequiredAcl:
    return RequiredAcl(operation, ResourceType.TRANSACTIONAL_ID)


def cluster(operation: Operation, *, is_logged: bool = True) -> RequiredAcl:
    return RequiredAcl(operation, ResourceType.CLUSTER, is_logged)


def of_each(
    kind: ResourceType, operation: Operation, unless: RequiredAcl | None = None
) -> HandlerAcl:
    """Returns the requirement that the principal may perform ``operation`` on each resource of the
    type ``kind`` that its request names."""
    return HandlerAcl(operation, kind, f"each {NOUNS[kind]}", unless=unless)


def each_shown_topic() -> HandlerAcl:
    """Returns the requirement of DESCRIBE on each topic that the request names, or on each returned
    topic if the request is for all topics."""
    of = (
        "each named topic; a request for all topics returns only the topics that the principal"
        " may describe"
    )
    return HandlerAcl(Operation.DESCRIBE, ResourceType.TOPIC, of)


def cluster_action(when: str) -> HandlerAcl:
    """Returns the requirement of CLUSTER_ACTION, which is reserved for brokers. The requirement
    applies in the case ``when``."""
    return HandlerAcl(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, "the cluster", when)


def nothing(why: str) -> Rights:
    """Returns the rights of an API that needs no ACL, with the reason ``why``."""
    return Rights(why_none=why)


UNSAID = Rights()
"""The default for a row of the table of APIs. The tests fail if a served API keeps this default."""
CLUSTER_ACTION = cluster(Operation.CLUSTER_ACTION)
"""The ACL that a broker needs for requests to other brokers of its cluster."""
AMONG_BROKERS = Rights((CLUSTER_ACTION,))
"""The ACLs of APIs that only brokers use."""
